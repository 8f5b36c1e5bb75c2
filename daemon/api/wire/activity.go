package wire

import "time"

// MeterHeader of the answer to GET /v1/events?wakes=1 is the file with the processor time of the
// agent (cgroup.Meter). A shim that sends it polls its agent only after POST /v1/look, for as
// long as the stream lasts.
const MeterHeader = "Polis-Meter"

// WakeAgain is the minimum interval of wakes while an agent keeps running; its shim stays awake
// for twice as long.
const WakeAgain = 2500 * time.Millisecond
