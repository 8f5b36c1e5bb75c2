package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"polis/cgroup"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/host/cage"
	"polis/daemon/host/isolation"
	"polis/netbridge"
)

// isolation checks which namespaces are available, and whether agents can have a network. Without
// some of it agents are available only if the configuration allows it.
func (d *Doctor) isolation(ctx context.Context) []api.Check {
	lost, err := isolation.Probe(ctx, self)
	if err != nil {
		return []api.Check{bad("namespaces", api.CheckFail, err.Error(), "unknown how agents can be kept apart", "run doctor as root").asRoot()}
	}
	var out []api.Check
	fixes := map[string]string{isolation.Network: "give CAP_NET_ADMIN; load the modules nf_tables, nft_chain_nat, bridge and veth; see /proc/sys/user/max_net_namespaces"}
	for _, l := range lost {
		fix := fixes[l.Capability]
		if fix == "" {
			fix = "run as root with CAP_SYS_ADMIN; see /proc/sys/user/max_*_namespaces"
		}
		state := api.CheckFail
		if l.Capability != isolation.Mount && d.config.Sandbox.Degraded == config.DegradedAllow {
			state = api.CheckWarn
		}
		c := bad("namespace "+l.Capability, state, l.Found, l.Cost, fix)
		c.Code = l.Code
		switch {
		case l.Capability == isolation.Network && os.Geteuid() == 0:
			out = append(out, c.by("sudo modprobe -a nf_tables nft_chain_nat bridge veth"))
		default:
			out = append(out, c.asRoot())
		}
	}
	if len(lost) == 0 {
		return []api.Check{ok("namespaces", "mount, pid, network, ipc, uts, cgroup"), networkSettings()}
	}
	// What it comes to: a container that may not make these.
	c := bad("full isolation", api.CheckWarn, fmt.Sprintf("%d of its parts are not available", len(lost)), "agents are added without them, because sandbox.degraded is \"allow\"",
		"in a container: run it privileged, or with a runtime that gives it namespaces of its own, such as Sysbox")
	if d.config.Sandbox.Degraded != config.DegradedAllow {
		c.State, c.Cost = api.CheckFail, "agents are refused, unless sandbox.degraded is \"allow\""
	}
	if isolation.Lacks(lost, isolation.Mount) {
		c.State, c.Cost = api.CheckFail, "agents are refused: nothing could be kept from them"
	}
	c.Code = api.CodeSysboxUnavailable
	return append(out, c.without(ofTheContainer))
}

// networkSettings checks that polisd can write the settings of the interfaces that it makes.
func networkSettings() api.Check {
	const name, works = "network", "bridge, veth and nftables work"
	if err := unix.Access(ipForward, unix.W_OK); err != nil {
		return bad(name, api.CheckFail, fmt.Sprintf("%s, but %s cannot be written: %v", works, ipForward, err), "polisd cannot set up the network and does not start", "mount /proc/sys read-write for polisd").by("sudo mount -o remount,bind,rw /proc/sys")
	}
	return ok(name, works)
}

func probeNetwork(ctx context.Context, _ string) (string, error) { return "", netbridge.Probe(ctx) }

func (d *Doctor) cgroups(context.Context) []api.Check {
	const name = "control groups"
	h, err := cgroup.Detect()
	if err != nil {
		return []api.Check{bad(name, api.CheckFail, err.Error(), "agents cannot be limited or killed as a whole", "mount cgroup2 at /sys/fs/cgroup").by("sudo mount -t cgroup2 cgroup2 /sys/fs/cgroup")}
	}
	found := "mode " + string(h.Mode)
	var lacking []string
	for _, c := range []string{"memory", "pids", "cpu"} {
		if !h.Has(c) {
			lacking = append(lacking, c)
		}
	}
	if len(lacking) > 0 {
		f := bad(name, api.CheckFail, found+" without "+strings.Join(lacking, ", "), "agents have no limit of these", "enable the controllers (kernel command line cgroup_enable=memory; cgroup.subtree_control of the parent group)")
		return []api.Check{enableControllers(f, lacking)}
	}
	return []api.Check{ok(name, found+" with memory, pids, cpu")}
}

// enableControllers adds the command that gives controllers to the groups below the root of cgroup v2, if the kernel has them there.
func enableControllers(f fault, lacking []string) api.Check {
	const root = "/sys/fs/cgroup/"
	b, err := os.ReadFile(root + "cgroup.controllers")
	for _, c := range lacking {
		if err != nil || !slices.Contains(strings.Fields(string(b)), c) {
			return f.without("the kernel was started without these controllers, or gave them to cgroup v1: its command line says which")
		}
	}
	return f.by("echo +" + strings.Join(lacking, " +") + " | sudo tee " + root + "cgroup.subtree_control")
}

// oldestGit is the first with merge-tree --write-tree, which merges without a
// checkout.
var oldestGit = release{2, 38}

func (d *Doctor) git(ctx context.Context) api.Check {
	const name = "git"
	out, err := output(ctx, "git", "--version")
	if err != nil {
		return bad(name, api.CheckFail, err.Error(), "no worktrees, no merges", "install git 2.38 or newer").installed("git")
	}
	var r release
	if n, err := fmt.Sscanf(out, "git version %d.%d", &r.major, &r.minor); n != 2 {
		return bad(name, api.CheckWarn, fmt.Sprintf("%q: %v", out, err), "unknown whether git is new enough", "install git 2.38 or newer").installed("git")
	}
	if r.before(oldestGit) {
		return bad(name, api.CheckFail, out, "branches cannot be merged without a checkout", "install git 2.38 or newer").installed("git")
	}
	return ok(name, out)
}

// cage reports whether the daemon's git can be kept from running what agents wrote.
func (d *Doctor) cage(context.Context) api.Check {
	const name = "confined git"
	const cost = "nothing that needs git works: it would run what agents wrote, as the owner of the project"
	err := cage.Probe()
	fix := "use Linux 5.13 or newer with landlock in the kernel's lsm= list; in a container, a seccomp profile that allows the calls of Landlock"
	if err == nil {
		err, fix = cage.Check("git"), "let git in the PATH of polisd be the program itself and not a script"
	}
	if err == nil {
		return ok(name, "Landlock and seccomp")
	}
	c := bad(name, api.CheckFail, err.Error(), cost, fix)
	c.Code = api.CodeCageUnavailable
	return c.without("the kernel and the container decide about the first, and the PATH of the unit about the second")
}

func (d *Doctor) systemd(ctx context.Context) api.Check {
	const name = "systemd"
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return bad(name, api.CheckWarn, "not running", "polisd starts agents itself; nothing restarts polisd after a crash", "on a machine with systemd, have it start polisd (systemctl enable --now polisd)").
			without("systemd is not process 1 here, and only the start of the machine, or of the container, makes it that")
	}
	out, err := output(ctx, "systemctl", "--version")
	if err != nil {
		return bad(name, api.CheckWarn, err.Error(), "unknown which systemd this is", "let systemctl be in the PATH").without(notKnown)
	}
	var version int
	if n, err := fmt.Sscanf(out, "systemd %d", &version); n != 1 || version < 252 {
		return bad(name, api.CheckWarn, fmt.Sprintf("%s %v", out, err), "the units are made for systemd 252 and newer", "use systemd 252 or newer").without("systemd comes with the release of the system")
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
		return []api.Check{bad(name, api.CheckFail, fmt.Sprintf("%s: %v", dir, err), "workspaces cannot be made", "make the directory, or set workspaces_dir").by("sudo mkdir -p " + api.PastedWord(d.config.WorkspacesDir))}
	}
	free := st.Bavail * uint64(st.Bsize)
	found := fmt.Sprintf("%s: %.1f GiB free", dir, float64(free)/(1<<30))
	switch {
	case st.Flags&unix.ST_RDONLY != 0:
		return []api.Check{bad(name, api.CheckFail, dir+" is read-only", "workspaces cannot be made", "mount it for writing, or set workspaces_dir").by("sudo mount -o remount,rw \"$(findmnt -no TARGET -T " + api.PastedWord(dir) + ")\"")}
	case free < leastBytes:
		return []api.Check{bad(name, api.CheckWarn, found, "agents will soon get ENOSPC", "make room, or set workspaces_dir to a larger disk; polisctl gc removes what polis does not need any more").by("polisctl gc")}
	case st.Files > 0 && st.Ffree < leastInodes:
		return []api.Check{bad(name, api.CheckWarn, fmt.Sprintf("%s, %d inodes", found, st.Ffree), "agents will soon get ENOSPC although there is room", "remove files, or use a file system with more inodes; polisctl gc removes what polis does not need any more").by("polisctl gc")}
	}
	return []api.Check{ok(name, found)}
}

// output runs a program of the system and returns the first line it prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:forbidigo // asks a program of the system for its version; the name is a constant
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
