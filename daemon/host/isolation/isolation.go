package isolation

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// The names of what can be missing, as in [api.Loss].
const (
	Mount   = "mount"
	PID     = "pid"
	Network = "network"
	IPC     = "ipc"
	UTS     = "uts"
	Cgroup  = "cgroup"
)

// kinds are the namespaces of a sandbox, and what agents lose without one.
var kinds = []struct {
	name, cost string
	flag       uintptr
	code       api.Code
}{
	{Mount, "agents would see the files of the host beside their view", unix.CLONE_NEWNS, api.CodeMountNSFailed},
	{PID, "agents see and can signal each other's processes and their owner's, and reach their files through them", unix.CLONE_NEWPID, api.CodePIDNSFailed},
	{Network, "agents share the host's network: its ports, its services and each other's; there are no port maps", unix.CLONE_NEWNET, api.CodeNetNSFailed},
	{IPC, "agents share memory and queues with the host", unix.CLONE_NEWIPC, api.CodeNamespaceFailed},
	{UTS, "agents share the host's name", unix.CLONE_NEWUTS, api.CodeNamespaceFailed},
	{Cgroup, "agents see the control groups of the host", unix.CLONE_NEWCGROUP, api.CodeNamespaceFailed},
}

// Probe returns what is missing, in a fixed order; nothing if all is there.
// program answers [Flag] with [Child]. An error says that nothing was found out,
// which must not be taken for a machine that has everything.
func Probe(ctx context.Context, program string) ([]api.Loss, error) {
	if _, err := Ask(ctx, program, "nothing", "", 0); err != nil {
		return nil, fmt.Errorf("look for namespaces: %w", err)
	}
	var all uintptr
	for _, k := range kinds {
		all |= k.flag
	}
	var out []api.Loss
	if _, err := Ask(ctx, program, "nothing", "", all); err != nil {
		for _, k := range kinds {
			if _, err := Ask(ctx, program, "nothing", "", k.flag); err != nil {
				out = append(out, api.Loss{Capability: k.name, Code: k.code, Found: err.Error(), Cost: k.cost})
			}
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("namespaces can be made one by one and not together: %w", err)
		}
	}
	if !Lacks(out, Network) {
		if _, err := Ask(ctx, program, "network", "", unix.CLONE_NEWNET); err != nil {
			out = append(out, api.Loss{Capability: Network, Code: api.CodeNetNSFailed, Found: "bridge, veth and nftables: " + err.Error(), Cost: kinds[2].cost})
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("look for namespaces: %w", context.Cause(ctx))
	}
	return out, nil
}

// Lacks reports whether something is among what is missing.
func Lacks(lost []api.Loss, capability string) bool {
	return slices.ContainsFunc(lost, func(l api.Loss) bool { return l.Capability == capability })
}
