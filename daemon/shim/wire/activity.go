package wire

import "time"

// MeterHeader of the answer to GET /v1/events?wakes=1 is the file with the
// processor time of the agent (cgroup.Meter). A shim that sends it looks at its
// agent only when it is told to (POST /v1/look), for as long as the stream lasts.
const MeterHeader = "Polis-Meter"

// WakeAgain is how often at most a shim is told while its agent goes on
// running; it stays awake for twice as long.
const WakeAgain = 2500 * time.Millisecond
