package doctor

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"polis/cgroup/unotify"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/isolation"
	"polis/netbridge"
)

const roomName = "room for agents"

func (d *Doctor) room(context.Context) api.Check {
	var s unix.Sysinfo_t
	if err := unix.Sysinfo(&s); err != nil {
		return bad(roomName, api.CheckWarn, err.Error(), "unknown how many agents there can be", "")
	}
	return roomIn(d.config, int64(s.Totalram*uint64(s.Unit)))
}

// roomIn says how many agents with the usual limits are let in at once; see
// [admission] and [limits.total] of polisd.toml(5).
func roomIn(c config.Config, memory int64) api.Check {
	const name, mb = roomName, 1 << 20
	each := int64(c.Limits.MemoryMB)
	have, of := memory/mb-int64(c.Admission.ReserveMB), fmt.Sprintf("%d MB of memory without admission.reserve_mb", memory/mb)
	if t := int64(c.Limits.Total.MemoryMB); t > 0 && t < have {
		have, of = t, fmt.Sprintf("limits.total.memory_mb = %d", t)
	}
	if each <= 0 {
		return ok(name, of+"; an agent's own is not limited")
	}
	fits := max(0, int64(float64(have)*c.Admission.Overcommit)/each)
	found := fmt.Sprintf("%d of %d MB each (%s, times %g)", fits, each, of, c.Admission.Overcommit)
	if fits >= int64(c.MaxAgents) {
		return ok(name, found)
	}
	return bad(name, api.CheckWarn, found, fmt.Sprintf("agents are refused (%s) before max_agents = %d", api.CodeHostOvercommitted, c.MaxAgents),
		"lower limits.memory_mb, raise admission.overcommit or limits.total, or add agents with --force")
}

// refusals says whether what the egress rules refuse can be told of.
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
	if err := netbridge.ProbeCount(); err != nil {
		return "", err
	}
	most, err := netbridge.MostConnections()
	if err != nil || most == 0 {
		return "nft_connlimit", err
	}
	return fmt.Sprintf("nft_connlimit; at most %d of an agent", most), nil
}

// calls says whether system calls that the sandbox refuses can be told of.
func (d *Doctor) calls(ctx context.Context) api.Check {
	const name = "told system calls"
	if _, err := isolation.Ask(ctx, self, "calls", "-", 0); err != nil {
		return bad(name, api.CheckWarn, err.Error(), "system calls that lead out of a sandbox are refused all the same, and are in no event",
			"run polisd outside of a container with a seccomp listener of its own (EBUSY), and with kernel.yama.ptrace_scope below 3")
	}
	return ok(name, "a seccomp listener can be had")
}

func probeCalls(ctx context.Context, _ string) (string, error) { return "", unotify.Probe(ctx) }

func probeQueue(context.Context, string) (string, error) { return netbridge.ProbeQueue() }
