package doctor

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"polis/cgroup/unotify"
	"polis/daemon/api"
	"polis/daemon/host/isolation"
	"polis/netbridge"
)

// Checks of whether the kernel can report the calls and connections that it refuses, and limit the
// number of connections.

// former sets the name that a check had in earlier releases, for scripts that select by it.
func former(name string, c api.Check) api.Check {
	c.FormerName = name
	return c
}

// refusals checks that connections that the egress rules refuse can be logged.
func (d *Doctor) refusals(ctx context.Context) api.Check {
	return former("told refusals", d.egressLog(ctx))
}

func (d *Doctor) egressLog(ctx context.Context) api.Check {
	const name = "egress log"
	found, err := isolation.Ask(ctx, self, "queue", "-", unix.CLONE_NEWNET)
	if err != nil {
		return bad(name, api.CheckWarn, err.Error(), "a connection that the egress rules refuse times out, and no event reports it", "load nft_queue or xt_NFQUEUE, and nfnetlink_queue").by("sudo modprobe -a nft_queue nfnetlink_queue")
	}
	return ok(name, found)
}

// connections checks that the connections of an agent can be limited.
func (d *Doctor) connections(ctx context.Context) api.Check {
	return former("counted connections", d.connectionLimit(ctx))
}

func (d *Doctor) connectionLimit(ctx context.Context) api.Check {
	const name = "connection limit"
	found, err := isolation.Ask(ctx, self, "count", "-", unix.CLONE_NEWNET)
	if err != nil {
		return bad(name, api.CheckWarn, err.Error(), "limits.connections has no effect: one agent can fill the connection tracking table of the machine", "load nft_connlimit").by("sudo modprobe nft_connlimit")
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
	return former("told system calls", d.auditCalls(ctx))
}

func (d *Doctor) auditCalls(ctx context.Context) api.Check {
	const name = "system call audit"
	if _, err := isolation.Ask(ctx, self, "calls", "-", 0); err != nil {
		return bad(name, api.CheckWarn, err.Error(), "a system call that leads out of a sandbox is refused, and no event reports it",
			"run polisd outside of a container that has a seccomp listener (EBUSY), and set kernel.yama.ptrace_scope below 3").
			without(ofTheContainer + ", and the kernel keeps ptrace_scope 3 until it is started again")
	}
	return ok(name, "a seccomp listener is available")
}

func probeCalls(ctx context.Context, _ string) (string, error) { return "", unotify.Probe(ctx) }

func probeQueue(context.Context, string) (string, error) { return netbridge.ProbeQueue() }
