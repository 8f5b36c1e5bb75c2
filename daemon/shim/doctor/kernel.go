package doctor

import (
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// The kernels that matter: cgroup.kill and openat2 are needed (5.14), FUSE
// passthrough came with 6.9.
var (
	oldest      = release{5, 14}
	passthrough = release{6, 9}
)

// release is the version of a kernel, as far as it is compared.
type release struct{ major, minor int }

func (r release) before(o release) bool {
	return r.major < o.major || r.major == o.major && r.minor < o.minor
}

// parseRelease reads what uname(2) calls the release, such as "6.1.0-18-amd64".
func parseRelease(s string) (release, error) {
	var r release
	if n, err := fmt.Sscanf(s, "%d.%d", &r.major, &r.minor); n != 2 {
		return r, fmt.Errorf("kernel release %q: %w", s, err)
	}
	return r, nil
}

func (d *Doctor) kernel(context.Context) api.Check {
	const name = "kernel"
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return bad(name, api.CheckFail, err.Error(), "nothing is known about the kernel", "run doctor on Linux").without(ofTheKernel)
	}
	text := unix.ByteSliceToString(u.Release[:])
	r, err := parseRelease(text)
	switch {
	case err != nil:
		return bad(name, api.CheckWarn, err.Error(), "what the kernel can do is known from the other checks only", "go by these").without(ofTheKernel)
	case r.before(oldest):
		return bad(name, api.CheckFail, "Linux "+text, "openat2 and cgroup.kill are missing or incomplete: agents cannot be held", "use Linux 5.14 or newer; 6.9 or newer is fastest").without(ofTheKernel)
	case r.before(passthrough):
		return bad(name, api.CheckWarn, "Linux "+text, "no FUSE passthrough: data of files goes through polis-shim, large reads and writes are several times slower", "use Linux 6.9 or newer").without(ofTheKernel)
	}
	return ok(name, "Linux "+text)
}

func (d *Doctor) privileges(context.Context) api.Check {
	const name = "privileges"
	if os.Geteuid() != 0 {
		return bad(name, api.CheckFail, fmt.Sprintf("running as user %d", os.Geteuid()), "the checks below that need root say less than they could; polisd needs root", "run doctor as root, or start polisd and ask it: polisctl doctor").asRoot()
	}
	missing, err := missingCaps()
	switch {
	case err != nil:
		return bad(name, api.CheckWarn, err.Error(), "unknown which capabilities there are", "allow capget(2) in the container of polisd").without(ofTheContainer)
	case len(missing) > 0:
		return bad(name, api.CheckFail, "root without "+strings.Join(missing, ", "), "views, namespaces or rules cannot be made", "give the container or unit these capabilities (privileged container, CapabilityBoundingSet=)").without(ofTheContainer)
	}
	return ok(name, "root with all capabilities that are needed")
}

// needed are the capabilities without which polis cannot do its work.
var needed = []struct {
	bit  uint
	name string
}{
	{unix.CAP_CHOWN, "CAP_CHOWN"}, {unix.CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"}, {unix.CAP_FOWNER, "CAP_FOWNER"}, {unix.CAP_KILL, "CAP_KILL"},
	{unix.CAP_SETUID, "CAP_SETUID"}, {unix.CAP_SETGID, "CAP_SETGID"}, {unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"},
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}, {unix.CAP_SYS_CHROOT, "CAP_SYS_CHROOT"}, {unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},
}

func missingCaps() ([]string, error) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return nil, fmt.Errorf("read capabilities: %w", err)
	}
	var out []string
	for _, c := range needed {
		if data[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			out = append(out, c.name)
		}
	}
	return out, nil
}

func (d *Doctor) descriptors(context.Context) api.Check {
	const name = "open files"
	var rl unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &rl); err != nil {
		return bad(name, api.CheckWarn, err.Error(), "unknown how many files a view can have open", "allow getrlimit(2) in the container of polisd").without(ofTheContainer)
	}
	if rl.Max < 4096 {
		return bad(name, api.CheckWarn, fmt.Sprintf("at most %d for a process", rl.Max), "an agent that opens more files at once gets ENFILE", "remove what lowers LimitNOFILE= of polisd.service and polis-agent@.service; without systemd, raise ulimit -n before polisd starts").without("what set this limit is not known: a drop-in file of the units, or what started polisd")
	}
	return ok(name, fmt.Sprintf("at most %d for a process; a program of an agent has half of that (EMFILE), all of them together three quarters (ENFILE)", rl.Max))
}

func (d *Doctor) clock(context.Context) api.Check {
	const name = "clock"
	var tx unix.Timex
	state, err := unix.Adjtimex(&tx)
	if err != nil {
		return bad(name, api.CheckWarn, err.Error(), "unknown whether the clock is right", "allow adjtimex(2) in the container of polisd").without(ofTheContainer)
	}
	if state == timeError {
		f := bad(name, api.CheckWarn, "not synchronised", "times in events, logs and receipts may be wrong; leases are not affected, they use the monotonic clock", "run systemd-timesyncd, chrony or ntpd (in a virtual machine the host may do it already)")
		if !booted() {
			return f.without("systemd does not run here; which program keeps the time is not known")
		}
		return f.by("sudo timedatectl set-ntp true")
	}
	return ok(name, "synchronised")
}

// timeError is TIME_ERROR of adjtimex(2): the clock is not synchronised.
const timeError = 5
