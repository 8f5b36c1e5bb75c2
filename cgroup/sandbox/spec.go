package sandbox

import (
	"fmt"
	"path/filepath"

	"github.com/opencontainers/cgroups"
	devices "github.com/opencontainers/cgroups/devices/config"
	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"
)

// The score that is added to an agent's processes when the machine as a whole runs out of memory:
// an agent is killed before the host's own programs.
const oomScoreAdj = 300

// scratchPath is where a sandbox sees its scratch directory.
const scratchPath = "/var/tmp"

const (
	private   = unix.MS_PRIVATE | unix.MS_REC
	bindFlags = unix.MS_BIND | unix.MS_REC
)

// spec is the configuration for libcontainer. listener is where denied calls are audited, "" for
// nowhere.
func (c *Config) spec(listener string) (*configs.Config, error) {
	mounts, err := c.mounts()
	if err != nil {
		return nil, err
	}
	adj := oomScoreAdj
	spec := &configs.Config{
		Rootfs:          c.RootfsDir,
		Readonlyfs:      true,
		Mounts:          mounts,
		Devices:         deviceNodes(),
		Hostname:        c.Hostname,
		Namespaces:      c.namespaces(),
		Capabilities:    &configs.Capabilities{}, // none, in none of the sets
		NoNewPrivileges: true,
		Seccomp:         profile(c.UserNamespaces, c.Shared.PID, listener),
		OomScoreAdj:     &adj,
		Rlimits:         rlimits(),
		MaskPaths: []string{
			"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys",
			"/proc/key-users", "/proc/kmsg", "/proc/kallsyms", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
			"/proc/slabinfo", "/proc/timer_list", "/proc/timer_stats", "/proc/vmallocinfo", "/proc/pagetypeinfo",
			"/sys/devices/virtual/powercap", "/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing",
			"/sys/kernel/security", "/sys/kernel/config", "/sys/fs/bpf", "/sys/fs/pstore",
			"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d",
			"/etc/polis", "/etc/ssl/private",
		},
		ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/pressure", "/proc/sys", "/proc/sysrq-trigger"},
		Cgroups: &cgroups.Cgroup{
			Path: c.CgroupPath,
			// Package cgroup has set the limits already. There are no device rules: without
			// CAP_MKNOD no process inside can create a device, and every mount but /dev, which
			// only root writes to, is nodev.
			Resources: &cgroups.Resources{},
		},
	}
	if c.Shared.UTS {
		spec.Hostname = ""
	}
	if c.NetNS == "" && !c.Shared.Network {
		spec.Networks = []*configs.Network{{Type: "loopback"}}
	}
	return spec, nil
}

// namespaces are those the sandbox does not share.
func (c *Config) namespaces() configs.Namespaces {
	out := configs.Namespaces{{Type: configs.NEWNS}}
	for _, n := range []struct {
		shared bool
		ns     configs.Namespace
	}{
		{c.Shared.PID, configs.Namespace{Type: configs.NEWPID}},
		{c.Shared.IPC, configs.Namespace{Type: configs.NEWIPC}},
		{c.Shared.UTS, configs.Namespace{Type: configs.NEWUTS}},
		{c.Shared.Network, configs.Namespace{Type: configs.NEWNET, Path: c.NetNS}},
		{c.Shared.Cgroup, configs.Namespace{Type: configs.NEWCGROUP}},
	} {
		if !n.shared {
			out = append(out, n.ns)
		}
	}
	return out
}

// rlimits are those of a service, as far as the supervisor itself may set them. There is none for
// the number of processes: the kernel counts those by user, over all agents and the owner's own;
// the control group limits them.
func rlimits() []configs.Rlimit {
	files := MaxFiles()
	return []configs.Rlimit{
		// The soft limit stays small: some programs close every possible descriptor.
		{Type: unix.RLIMIT_NOFILE, Hard: files, Soft: min(files, 65536)},
		// No core files, which would contain an agent's secrets, and no program of the host that
		// gets the core of a program an agent chose: core(5) ignores a limit of 0 if core_pattern
		// is a pipe, and treats 1 as "no core".
		{Type: unix.RLIMIT_CORE, Hard: 1, Soft: 1},
		// The kernel's own default, independent of the supervisor's.
		{Type: unix.RLIMIT_MEMLOCK, Hard: lower(unix.RLIMIT_MEMLOCK, 8<<20), Soft: lower(unix.RLIMIT_MEMLOCK, 8<<20)},
		// Counted by user: signals that an agent queues must not keep its owner's own programs
		// from queuing some.
		{Type: unix.RLIMIT_SIGPENDING, Hard: lower(unix.RLIMIT_SIGPENDING, 4096), Soft: lower(unix.RLIMIT_SIGPENDING, 4096)},
	}
}

// MaxFiles is how many files one process of a sandbox can have open: half of what its supervisor
// can. The supervisor has a descriptor for each file that is open in the view, so a program that
// opens too many reaches its own limit (EMFILE), before all programs of its agent reach the
// view's (ENFILE).
func MaxFiles() uint64 { return min(lower(unix.RLIMIT_NOFILE, 1<<21)/2, 1<<20) }

// lower is value, or the supervisor's own hard limit if that is lower.
func lower(resource int, value uint64) uint64 {
	var own unix.Rlimit
	if err := unix.Getrlimit(resource, &own); err == nil && own.Max < value {
		return own.Max
	}
	return value
}

func (c *Config) mounts() ([]*configs.Mount, error) {
	const strict = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	tmpfs := func(dest, data string, flags int) *configs.Mount {
		return &configs.Mount{Source: "tmpfs", Device: "tmpfs", Destination: dest, Flags: flags, Data: data}
	}
	own := fmt.Sprintf("mode=700,uid=%d,gid=%d", c.UID, c.GID)

	// First, so that no mount of the caller can be below.
	trees, err := c.hostBinds()
	if err != nil {
		return nil, err
	}
	var out []*configs.Mount
	for _, t := range trees {
		out = append(out, bind(t, t, true))
	}
	out = append(out,
		&configs.Mount{Source: "proc", Device: "proc", Destination: "/proc", Flags: strict, Data: c.procOptions()},
		tmpfs("/dev", "mode=755", unix.MS_NOSUID|unix.MS_STRICTATIME),
		&configs.Mount{
			Source: "devpts", Device: "devpts", Destination: "/dev/pts",
			Flags: unix.MS_NOSUID | unix.MS_NOEXEC, Data: "newinstance,ptmxmode=0666,mode=0620,gid=5",
		},
		tmpfs("/dev/shm", "mode=1777", unix.MS_NOSUID|unix.MS_NODEV),
		&configs.Mount{Source: "sysfs", Device: "sysfs", Destination: "/sys", Flags: strict | unix.MS_RDONLY},
		// Run-times size their heaps by the limits in these files.
		&configs.Mount{Source: "cgroup", Device: "cgroup", Destination: "/sys/fs/cgroup", Flags: strict | unix.MS_RDONLY},
		tmpfs("/tmp", "mode=1777", unix.MS_NOSUID|unix.MS_NODEV),
		tmpfs("/run", "mode=755", unix.MS_NOSUID|unix.MS_NODEV),
		tmpfs(c.runtimeDir(), own, unix.MS_NOSUID|unix.MS_NODEV),
	)
	if !c.Shared.IPC {
		out = append(out, &configs.Mount{Source: "mqueue", Device: "mqueue", Destination: "/dev/mqueue", Flags: strict})
	}
	if c.ScratchDir != "" {
		out = append(out, bind(c.source(c.ScratchDir, c.ScratchOpen), scratchPath, false))
	} else {
		out = append(out, tmpfs(scratchPath, "mode=1777", unix.MS_NOSUID|unix.MS_NODEV))
	}
	if c.HomeDir != "" {
		out = append(out, bind(c.source(c.HomeDir, c.HomeOpen), c.Home, false))
	} else {
		out = append(out, tmpfs(c.Home, own, unix.MS_NOSUID|unix.MS_NODEV))
	}
	if c.RunDir != "" {
		out = append(out, bind(c.RunDir, "/run/polis", true))
	}
	for _, m := range c.Mounts {
		out = append(out, bind(c.source(m.Source, m.Open), m.Dest, m.ReadOnly))
	}
	for _, f := range c.files() {
		out = append(out, bind(f.source, f.dest, true))
	}
	// Last, and where no other mount may be: no mount covers process 1.
	return append(out, bind(c.InitBinary, initPath, true)), nil
}

// procOptions hide the processes of other users if they would be visible.
func (c *Config) procOptions() string {
	if c.Shared.PID {
		return "hidepid=invisible"
	}
	return ""
}

// bind binds a host path with everything mounted below it. The attributes are
// set on all of that, which a plain read-only remount would not do.
func bind(source, dest string, readOnly bool) *configs.Mount {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if readOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	return &configs.Mount{
		Source: source, Destination: filepath.Clean(dest), Device: "bind",
		Flags: bindFlags, PropagationFlags: []int{private}, RecAttr: &attr,
	}
}

// nodes are the devices a program expects everywhere.
var nodes = []struct {
	path         string
	major, minor int64
}{
	{"/dev/null", 1, 3}, {"/dev/zero", 1, 5}, {"/dev/full", 1, 7},
	{"/dev/random", 1, 8}, {"/dev/urandom", 1, 9}, {"/dev/tty", 5, 0},
}

func deviceNodes() []*devices.Device {
	var out []*devices.Device
	for _, n := range nodes {
		out = append(out, &devices.Device{
			Path: n.path, FileMode: 0o666,
			Rule: devices.Rule{Type: devices.CharDevice, Major: n.major, Minor: n.minor, Permissions: "rwm", Allow: true},
		})
	}
	return out
}
