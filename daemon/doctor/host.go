package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"polis/cgroup"
	"polis/daemon/api"
	"polis/netbridge"
)

// kinds are the namespaces of a sandbox, and what agents lose without one.
var kinds = []struct {
	name, cost string
	flag       uintptr
	code       api.Code
}{
	{"mount", "agents would see the files of the host beside their view", unix.CLONE_NEWNS, api.CodeMountNSFailed},
	{"pid", "agents would see and signal the processes of the host", unix.CLONE_NEWPID, api.CodePIDNSFailed},
	{"network", "agents would share the ports of the host", unix.CLONE_NEWNET, api.CodeNetNSFailed},
	{"ipc", "agents would share memory and queues with the host", unix.CLONE_NEWIPC, api.CodeNamespaceFailed},
	{"uts", "agents would share the host name", unix.CLONE_NEWUTS, api.CodeNamespaceFailed},
	{"cgroup", "agents would see the control groups of the host", unix.CLONE_NEWCGROUP, api.CodeNamespaceFailed},
}

func (d *Doctor) namespaces(ctx context.Context) []api.Check {
	var bads []api.Check
	for _, k := range kinds {
		if _, err := ask(ctx, "nothing", "", k.flag); err != nil {
			c := bad("namespace "+k.name, api.CheckFail, err.Error(), k.cost, "run as root with CAP_SYS_ADMIN; see /proc/sys/user/max_*_namespaces")
			c.Code = k.code
			bads = append(bads, c)
		}
	}
	if len(bads) > 0 {
		// What it comes to: a container that may not make these.
		c := bad("full isolation", api.CheckFail, fmt.Sprintf("%d of %d kinds of namespaces are not to be had", len(bads), len(kinds)),
			"agents cannot be kept apart here", "in a container: run it privileged, or with a runtime that gives it namespaces of its own, such as Sysbox")
		c.Code = api.CodeSysboxUnavailable
		return append(bads, c)
	}
	return []api.Check{ok("namespaces", "mount, pid, network, ipc, uts, cgroup")}
}

func (d *Doctor) network(ctx context.Context) api.Check {
	const name = "network"
	if _, err := ask(ctx, "network", "", unix.CLONE_NEWNET); err != nil {
		c := bad(name, api.CheckFail, err.Error(), "agents have no network of their own", "load the modules nf_tables, nft_chain_nat, bridge and veth, or build a kernel with them")
		c.Code = api.CodeBridgeFailed
		return c
	}
	return ok(name, "bridge, veth and nftables work")
}

func probeNetwork(ctx context.Context, _ string) (string, error) { return "", netbridge.Probe(ctx) }

func (d *Doctor) cgroups(context.Context) []api.Check {
	const name = "control groups"
	h, err := cgroup.Detect()
	if err != nil {
		return []api.Check{bad(name, api.CheckFail, err.Error(), "agents cannot be limited or killed as a whole", "mount cgroup2 at /sys/fs/cgroup")}
	}
	found := "mode " + string(h.Mode)
	var lacking []string
	for _, c := range []string{"memory", "pids", "cpu"} {
		if !h.Has(c) {
			lacking = append(lacking, c)
		}
	}
	if len(lacking) > 0 {
		return []api.Check{bad(name, api.CheckFail, found+" without "+strings.Join(lacking, ", "), "agents have no limit of these", "enable the controllers (kernel command line cgroup_enable=memory; cgroup.subtree_control of the parent group)")}
	}
	return []api.Check{ok(name, found+" with memory, pids, cpu")}
}

// oldestGit is the first with merge-tree --write-tree, which merges without a
// checkout.
var oldestGit = release{2, 38}

func (d *Doctor) git(ctx context.Context) api.Check {
	const name = "git"
	out, err := output(ctx, "git", "--version")
	if err != nil {
		return bad(name, api.CheckFail, err.Error(), "no worktrees, no merges", "install git 2.38 or newer")
	}
	var r release
	if n, err := fmt.Sscanf(out, "git version %d.%d", &r.major, &r.minor); n != 2 {
		return bad(name, api.CheckWarn, fmt.Sprintf("%q: %v", out, err), "unknown whether git is new enough", "install git 2.38 or newer")
	}
	if r.before(oldestGit) {
		return bad(name, api.CheckFail, out, "branches cannot be merged without a checkout", "install git 2.38 or newer")
	}
	return ok(name, out)
}

func (d *Doctor) systemd(ctx context.Context) api.Check {
	const name = "systemd"
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return bad(name, api.CheckWarn, "not running", "polisd starts agents itself; nothing restarts polisd after a crash", "on a machine with systemd: systemctl enable --now polisd")
	}
	out, err := output(ctx, "systemctl", "--version")
	if err != nil {
		return bad(name, api.CheckWarn, err.Error(), "unknown which systemd this is", "")
	}
	var version int
	if n, err := fmt.Sscanf(out, "systemd %d", &version); n != 1 || version < 252 {
		return bad(name, api.CheckWarn, fmt.Sprintf("%s %v", out, err), "the units are made for systemd 252 and newer", "use systemd 252 or newer")
	}
	return ok(name, out)
}

// The least that should be free where workspaces are.
const (
	leastBytes  = 1 << 30
	leastInodes = 100_000
)

func (d *Doctor) disk(context.Context) []api.Check {
	const name = "disk"
	dir := existing(d.config.WorkspacesDir)
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return []api.Check{bad(name, api.CheckFail, fmt.Sprintf("%s: %v", dir, err), "workspaces cannot be made", "make the directory, or set workspaces_dir")}
	}
	free := st.Bavail * uint64(st.Bsize)
	found := fmt.Sprintf("%s: %.1f GiB free", dir, float64(free)/(1<<30))
	switch {
	case st.Flags&unix.ST_RDONLY != 0:
		return []api.Check{bad(name, api.CheckFail, dir+" is read-only", "workspaces cannot be made", "mount it for writing, or set workspaces_dir")}
	case free < leastBytes:
		return []api.Check{bad(name, api.CheckWarn, found, "agents will soon get ENOSPC", "make room, or set workspaces_dir to a larger disk; polisctl gc shows what can go")}
	case st.Files > 0 && st.Ffree < leastInodes:
		return []api.Check{bad(name, api.CheckWarn, fmt.Sprintf("%s, %d inodes", found, st.Ffree), "agents will soon get ENOSPC although there is room", "remove files, or use a file system with more inodes")}
	}
	return []api.Check{ok(name, found)}
}

// output runs a program of the system and returns the first line it prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:forbidigo // asks a program of the system for its version; nobody else names it
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	line, _, _ := strings.Cut(string(out), "\n")
	if err != nil {
		return line, fmt.Errorf("%s: %w", name, err)
	}
	return line, nil
}
