package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"polis/daemon/host/isolation"
)

// self is this program, which answers to ChildFlag.
const self = "/proc/self/exe"

// ChildFlag makes the program that links this package a child of doctor: it
// is followed by the name of a probe. The program calls Child then.
const ChildFlag = isolation.Flag

// probes are what a child can be asked to do. Each leaves what it made to the
// end of its namespaces.
var probes = map[string]func(ctx context.Context, arg string) (string, error){
	"nothing": func(context.Context, string) (string, error) { return "", nil },
	"view":    probeView,
	"network": probeNetwork,
	"queue":   probeQueue,
	"count":   probeCount,
	"calls":   probeCalls,
	"barrier": probeBarrier,
}

// Child does one probe and prints the answer; the program ends then.
func Child(ctx context.Context, out io.Writer, args []string) error {
	if len(args) != 2 || probes[args[0]] == nil {
		return errors.New("doctor: no such probe")
	}
	var a isolation.Answer
	found, err := probes[args[0]](ctx, args[1])
	a.Found = found
	if err != nil {
		a.Err = err.Error()
	}
	return json.NewEncoder(out).Encode(a)
}
