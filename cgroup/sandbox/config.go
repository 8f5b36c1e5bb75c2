package sandbox

import (
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"polis/cgroup"
)

// Mount is a host file or directory that is visible in the sandbox. Of the mounts below Source,
// those that exist when the sandbox is created come with it.
type Mount struct {
	Source   string // on the host
	Dest     string // in the sandbox; missing directories are created
	ReadOnly bool
	// Open, if not nil, is what is mounted, whatever Source leads to. A source whose path others than root can
	// change must be open. Create does not close it.
	Open *os.File
}

// Config is the configuration of a sandbox.
type Config struct {
	ID       string // letters, digits, and "_+-."; unique in StateDir
	StateDir string // libcontainer's state; for root only
	// RootfsDir becomes "/" of the sandbox. It is created empty, filled with mount points, and
	// removed by Destroy.
	RootfsDir string

	UID, GID int // user and group of the processes; not root
	Groups   []int
	User     string // the name of UID inside
	FullName string // the user's name for people (git asks for it); "" for User
	Home     string // home directory, as seen inside

	HomeDir    string // host directory seen at Home; "" for an empty, private one in memory
	ScratchDir string // host directory seen at /var/tmp; "" likewise
	RunDir     string // host directory seen at /run/polis, read-only; "" for none
	// HomeOpen and ScratchOpen, if not nil, are HomeDir and ScratchDir: see Mount.Open.
	HomeOpen, ScratchOpen *os.File

	Mounts []Mount
	Hide   []string // host paths that must not be seen even if they are below /opt, /usr or /etc

	Workdir    string // where processes start unless Process.Cwd is set; "" for Home
	Hostname   string
	Domain     string // of Hostname's full name in /etc/hosts, and of mail; "" for none
	ResolvConf string // host file seen as /etc/resolv.conf; "" for the host's own
	NetNS      string // path of the network namespace to join; "" for a new one with only a loopback
	Env        []string

	// Shared are the namespaces that the sandbox shares with the host, because they are not
	// available: see [Shared].
	Shared Shared

	// UserNamespaces lets processes create user namespaces, and in them all others: for agents
	// that bring a sandbox of their own. It exposes more of the kernel to them.
	UserNamespaces bool

	// ReportDenied audits denied calls, if the kernel supports it: see [Sandbox.Refused].
	// Processes inside cannot have a seccomp listener of their own then; the kernel allows one
	// per process.
	ReportDenied bool

	CgroupPath string // the sandbox's own group, below the hierarchies' mount points
	Limits     cgroup.Limits
	InitBinary string // path of the running program, for process 1; "" to find it

	Log *slog.Logger // nil for none
}

// Shared lists the namespaces that are the host's. Each removes a protection; a sandbox always
// has its own mount namespace.
type Shared struct {
	// Network: the host's network. NetNS must be empty then.
	Network bool
	// PID: processes of the same user outside are visible, can be signalled and, through /proc,
	// inspected, including the files they see. ptrace is denied then. When the process that
	// created the sandbox dies, process 1 kills the rest through the control group; on a kernel
	// older than 5.14 they live on until [Cleanup].
	//
	// The program that creates such a sandbox becomes the parent of processes that are orphaned
	// in it, and reaps them. It must not create a second one at the same time.
	PID bool
	IPC bool // shared memory and queues
	UTS bool // the host's name
	// Cgroup: the host's control groups are visible.
	Cgroup bool
}

var goodID = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_+.-]{0,127}$`)

// check fills defaults and rejects invalid values.
func (c *Config) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
	if !goodID.MatchString(c.ID) {
		return bad("id %q", c.ID)
	}
	if c.UID <= 0 || c.GID <= 0 {
		return bad("user %d, group %d: not as root", c.UID, c.GID)
	}
	for _, g := range c.Groups {
		if g <= 0 {
			return bad("supplementary group %d", g)
		}
	}
	if c.User == "" || strings.ContainsAny(c.User, ":\n\x00/") {
		return bad("user name %q", c.User)
	}
	if strings.ContainsAny(c.Hostname, " \t\n\x00/") || len(c.Hostname) > 63 {
		return bad("host name %q", c.Hostname)
	}
	if strings.ContainsAny(c.Domain, " \t\n\x00/") || len(c.Domain) > 63 {
		return bad("domain %q", c.Domain)
	}
	if c.Hostname == "" {
		c.Hostname = c.ID[:min(len(c.ID), 63)]
	}
	if c.Shared.Network && c.NetNS != "" {
		return bad("network namespace %q, and the host's network", c.NetNS)
	}
	if c.Workdir == "" {
		c.Workdir = c.Home
	}
	if err := c.checkPaths(bad); err != nil {
		return err
	}
	if err := c.Limits.Validate(); err != nil {
		return bad("%v", err)
	}
	if c.InitBinary == "" {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		c.InitBinary = exe
	}
	fi, err := os.Stat(c.InitBinary)
	if err != nil {
		return bad("init binary: %v", err)
	}
	if fi.Mode().Perm()&0o001 == 0 {
		return bad("init binary %s has mode %v: everybody must be able to execute it", c.InitBinary, fi.Mode().Perm())
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

func (c *Config) checkPaths(bad func(string, ...any) error) error {
	clean := func(p string) bool {
		return filepath.IsAbs(p) && filepath.Clean(p) == p && p != "/" && !strings.ContainsAny(p, "\x00\n")
	}
	for what, p := range map[string]string{
		"state directory": c.StateDir, "root directory": c.RootfsDir, "home": c.Home, "working directory": c.Workdir,
	} {
		if !clean(p) {
			return bad("%s %q is not an absolute, clean path", what, p)
		}
	}
	for what, p := range map[string]string{
		"home directory": c.HomeDir, "scratch directory": c.ScratchDir, "run directory": c.RunDir,
		"resolv.conf": c.ResolvConf, "network namespace": c.NetNS, "init binary": c.InitBinary,
	} {
		if p != "" && !clean(p) {
			return bad("%s %q is not an absolute, clean path", what, p)
		}
	}
	if strings.ContainsAny(c.Home, ":") {
		return bad("home %q: a colon cannot be in a home directory", c.Home)
	}
	for _, p := range append([]string{c.Home}, c.Hide...) {
		if !clean(p) {
			return bad("path %q is not absolute and clean", p)
		}
	}
	if err := ours(c.Home); err != nil {
		return bad("home: %v", err)
	}
	for _, m := range c.Mounts {
		if !clean(m.Source) || !clean(m.Dest) {
			return bad("mount %q at %q: both must be absolute, clean paths", m.Source, m.Dest)
		}
		if err := ours(m.Dest); err != nil {
			return bad("mount: %v", err)
		}
	}
	return nil
}

// reserved are the paths where the sandbox's own protection is mounted: a mount of the caller
// there would remove it.
var reserved = []string{"/proc", "/sys", "/dev", "/.polis"}

func ours(p string) error {
	for _, r := range reserved {
		if within(r, p) {
			return fmt.Errorf("%s is the sandbox's own", p)
		}
	}
	// These contain the sandbox's mounts, so nothing may be mounted over them; below is allowed.
	for _, r := range []string{"/usr", "/etc", "/tmp", "/run", "/var", "/bin", "/lib", "/lib64", "/sbin"} {
		if p == r {
			return fmt.Errorf("%s is the sandbox's own", p)
		}
	}
	return nil
}

// within reports whether p is dir or below it.
func within(dir, p string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// env is the environment a process starts with: the sandbox's, then the process's own; the last
// value of a name wins.
func (c *Config) env(extra []string) []string {
	// Memory counts against the limit, and /tmp is memory: TMPDIR directs large temporary files
	// to the disk.
	tmp := "/tmp"
	if c.ScratchDir != "" {
		tmp = scratchPath
	}
	base := []string{
		"PATH=" + path.Join(c.Home, ".local/bin") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + c.Home, "USER=" + c.User, "LOGNAME=" + c.User, "SHELL=" + shell(),
		"TMPDIR=" + tmp, "XDG_RUNTIME_DIR=" + c.runtimeDir(), "LANG=C.UTF-8",
	}
	var out []string
	at := make(map[string]int)
	for _, list := range [][]string{base, c.Env, extra} {
		for _, kv := range list {
			name, _, ok := strings.Cut(kv, "=")
			if !ok || name == "" {
				continue
			}
			if i, ok := at[name]; ok {
				out[i] = kv
				continue
			}
			at[name] = len(out)
			out = append(out, kv)
		}
	}
	return out
}

func (c *Config) runtimeDir() string { return fmt.Sprintf("/run/user/%d", c.UID) }
