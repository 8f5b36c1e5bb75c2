package doctor

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"polis/cgroup/unotify"
	"polis/daemon/api"
	"polis/daemon/isolation"
	"polis/netbridge"
)

// Calls and connections that the kernel refuses or counts: whether it can report them.

// refusals checks that connections that the egress rules refuse can be logged.
func (d *Doctor) refusals(ctx context.Context) api.Check {
	const name = "told refusals"
	found, err := isolation.Ask(ctx, self, "queue", "-", unix.CLONE_NEWNET)
	if err != nil {
		return bad(name, api.CheckWarn, err.Error(), "connections that egress rules refuse time out, and are in no event", "load nft_queue or xt_NFQUEUE, and nfnetlink_queue")
	}
	return ok(name, found)
}

// connections says whether agents' connections can be limited, and to how many.
func (d *Doctor) connections(ctx context.Context) api.Check {
	const name = "counted connections"
	found, err := isolation.Ask(ctx, self, "count", "-", unix.CLONE_NEWNET)
	if err != nil {
		return bad(name, api.CheckWarn, err.Error(), "one agent can use up the machine's table of connections for all: limits.connections does not hold", "load nft_connlimit")
	}
	return ok(name, found)
}

func probeCount(context.Context, string) (string, error) {
	if err := netbridge.ProbeConnlimit(); err != nil {
		return "", err
	}
	most, err := netbridge.MostConnections()
	if err != nil || most == 0 {
		return "nft_connlimit", err
	}
	return fmt.Sprintf("nft_connlimit; at most %d of an agent", most), nil
}

// calls checks that system calls that the sandbox denies can be audited.
func (d *Doctor) calls(ctx context.Context) api.Check {
	const name = "told system calls"
	if _, err := isolation.Ask(ctx, self, "calls", "-", 0); err != nil {
		return bad(name, api.CheckWarn, err.Error(), "system calls that lead out of a sandbox are refused all the same, and are in no event",
			"run polisd outside of a container with a seccomp listener of its own (EBUSY), and with kernel.yama.ptrace_scope below 3")
	}
	return ok(name, "a seccomp listener is available")
}

func probeCalls(ctx context.Context, _ string) (string, error) { return "", unotify.Probe(ctx) }

func probeQueue(context.Context, string) (string, error) { return netbridge.ProbeQueue() }
