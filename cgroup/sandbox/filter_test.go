//go:build seccomp

package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/opencontainers/runc/libcontainer/configs"
	libseccomp "github.com/seccomp/libseccomp-golang"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// A filter's answer to a call, without the number of an error.
const (
	saysAllow = 0x7fff0000
	saysErrno = 0x00050000
	saysTell  = 0x7fc00000
)

// filter is a profile as the kernel would run it.
type filter struct {
	vm   *bpf.VM
	size int
}

// compiled has libseccomp compile a profile, with the same calls in the same
// order as libcontainer makes them.
func compiled(t testing.TB, p *configs.Seccomp) filter {
	t.Helper()
	action := func(a configs.Action, errno *uint) libseccomp.ScmpAction {
		switch a {
		case configs.Allow:
			return libseccomp.ActAllow
		case configs.Notify:
			return libseccomp.ActNotify
		}
		return libseccomp.ActErrno.SetReturnCode(int16(*errno))
	}
	f, err := libseccomp.NewFilter(action(p.DefaultAction, p.DefaultErrnoRet))
	require.NoError(t, err)
	defer f.Release()
	require.NoError(t, f.SetOptimize(2))
	for _, c := range p.Syscalls {
		nr, err := libseccomp.GetSyscallFromName(c.Name)
		if err != nil {
			continue
		}
		if len(c.Args) == 0 {
			require.NoError(t, f.AddRule(nr, action(c.Action, c.ErrnoRet)), c.Name)
			continue
		}
		var conds []libseccomp.ScmpCondition
		seen := map[uint]bool{}
		for _, a := range c.Args {
			require.False(t, seen[a.Index], "%s: libcontainer makes rules of their own of two conditions for one argument", c.Name)
			seen[a.Index] = true
			op := map[configs.Operator]libseccomp.ScmpCompareOp{configs.EqualTo: libseccomp.CompareEqual,
				configs.NotEqualTo: libseccomp.CompareNotEqual, configs.MaskEqualTo: libseccomp.CompareMaskedEqual}[a.Op]
			cond, err := libseccomp.MakeCondition(a.Index, op, a.Value, a.ValueTwo)
			require.NoError(t, err)
			conds = append(conds, cond)
		}
		require.NoError(t, f.AddRuleConditional(nr, action(c.Action, c.ErrnoRet), conds), c.Name)
	}
	return assembled(t, f)
}

func assembled(t testing.TB, f *libseccomp.ScmpFilter) filter {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	text := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(r)
		text <- b
	}()
	require.NoError(t, f.ExportBPF(w))
	require.NoError(t, w.Close())
	var raws []bpf.RawInstruction
	for rd := bytes.NewReader(<-text); ; {
		var i unix.SockFilter
		if err := binary.Read(rd, binary.NativeEndian, &i); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		raws = append(raws, bpf.RawInstruction{Op: i.Code, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	program, ok := bpf.Disassemble(raws)
	require.True(t, ok)
	vm, err := bpf.NewVM(program)
	require.NoError(t, err)
	return filter{vm, len(raws)}
}

// says is the filter's answer. The machine that runs it loads words big endian, so they are put
// that way.
func (f filter) says(t testing.TB, nr int, args ...uint64) uint32 {
	t.Helper()
	const amd64 = 0xc000003e
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data, uint32(nr))
	binary.BigEndian.PutUint32(data[4:], amd64)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[16+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[20+8*i:], uint32(a>>32))
	}
	v, err := f.vm.Run(data)
	require.NoError(t, err)
	return uint32(v)
}

// modes are the profiles there can be.
var modes = []struct{ userNamespaces, sharedPIDs bool }{{}, {userNamespaces: true}, {sharedPIDs: true}, {true, true}}

// TestAuditedCallsAreTheDeniedOnes compares a filter with audit rules and one without: they must
// differ only in the action of denied calls.
func TestAuditedCallsAreTheDeniedOnes(t *testing.T) {
	names := map[int]string{}
	for nr := range 600 {
		names[nr], _ = libseccomp.ScmpSyscall(nr).GetName()
	}
	for _, m := range modes {
		t.Run(fmt.Sprintf("%+v", m), func(t *testing.T) {
			plain, telling := compiled(t, profile(m.userNamespaces, m.sharedPIDs, "")), compiled(t, profile(m.userNamespaces, m.sharedPIDs, "/x"))
			require.Equal(t, newest(t, false, m.userNamespaces, m.sharedPIDs), newest(t, true, m.userNamespaces, m.sharedPIDs), "from which call on it is ENOSYS")
			require.Less(t, telling.size, 4096-64, "instructions; the kernel takes 4096, and libcontainer adds some")
			t.Logf("%d instructions, %d without auditing", telling.size, plain.size)
			audits := map[string]bool{}
			check := func(nr int, args ...uint64) {
				before, after := plain.says(t, nr, args...), telling.says(t, nr, args...)
				if before == after {
					return
				}
				audits[names[nr]] = true
				if before != saysErrno|uint32(unix.EPERM) || after != saysTell {
					t.Fatalf("%s %#x: %#x became %#x", names[nr], args, before, after)
				}
			}
			words := interesting()
			for nr := range 600 {
				check(nr, 0, 0, 0, 0, 0, 0)
				for _, a := range words {
					check(nr, a, 0, 0, 0, 0, 0)
					check(nr, 0, a, 1, 0, 0, 0)
				}
			}
			dice := rand.New(rand.NewPCG(1, 2))
			word := func() uint64 {
				w := words[dice.IntN(len(words))]
				if dice.IntN(4) == 0 {
					w |= dice.Uint64() & words[dice.IntN(len(words))]
				}
				return w
			}
			for _, name := range []string{"socket", "clone", "unshare", "ioctl", "prlimit64", "setrlimit", "personality"} {
				nr, err := libseccomp.GetSyscallFromName(name)
				require.NoError(t, err)
				for range 10_000 {
					check(int(nr), word(), word(), word(), word(), word(), word())
				}
			}
			for name := range audits {
				require.NotEqual(t, Kind(""), kindOf(name))
			}
			requireAudited(t, m.userNamespaces, m.sharedPIDs, audits)
		})
	}
}

// newest is the highest number of a call that a profile names: libcontainer has
// those above fail with ENOSYS.
func newest(t *testing.T, audits, userNamespaces, sharedPIDs bool) libseccomp.ScmpSyscall {
	t.Helper()
	var out libseccomp.ScmpSyscall
	for _, c := range profile(userNamespaces, sharedPIDs, map[bool]string{true: "/x"}[audits]).Syscalls {
		if nr, err := libseccomp.GetSyscallFromName(c.Name); err == nil {
			out = max(out, nr)
		}
	}
	return out
}

// requireAudited requires all calls that should be audited.
func requireAudited(t *testing.T, userNamespaces, sharedPIDs bool, got map[string]bool) {
	t.Helper()
	want := map[string]bool{"socket": true, "prlimit64": true, "ioctl": true}
	if !userNamespaces {
		want["clone"], want["unshare"] = true, true
	}
	add := func(names string) {
		for _, n := range strings.Fields(names) {
			want[n] = true
		}
	}
	for _, g := range audited {
		if g.kind != KindNamespace || !userNamespaces {
			add(g.names)
		}
	}
	if sharedPIDs {
		add(debugCalls)
	}
	require.Equal(t, want, got)
}

// interesting are arguments at which rules part: every bit, every small number,
// and both with rubbish in the upper half.
func interesting() []uint64 {
	var out []uint64
	for v := range uint64(48) {
		out = append(out, v, v|1<<40, v|unix.SOCK_CLOEXEC, v|unix.SOCK_NONBLOCK)
	}
	for b := range 64 {
		out = append(out, 1<<b, ^uint64(0)<<b, 1<<b-1)
	}
	for _, v := range []uint64{unix.TIOCSTI, unix.TIOCLINUX, unix.IPPROTO_SCTP, unix.IPPROTO_MPTCP, unix.IPPROTO_L2TP, unix.IPPROTO_RAW, namespaceFlags, 0x20008, 0x40000} {
		for b := range 34 {
			out = append(out, v^1<<b)
		}
		out = append(out, v, v|1<<40)
	}
	return out
}

// Escapes are audited, and no call of ordinary programs.
func TestWhichCallsAreAudited(t *testing.T) {
	f := compiled(t, profile(false, false, "/x"))
	for _, c := range []struct {
		nr   int
		args []uint64
		want uint32
	}{
		{unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP}, saysTell},
		{unix.SYS_SOCKET, []uint64{unix.AF_PACKET | 1<<40, unix.SOCK_RAW, 0x300}, saysTell},
		{unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, saysTell},
		{unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, saysTell},
		{unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, saysAllow},
		{unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_NONBLOCK, 0}, saysAllow},
		{unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, saysAllow},
		{unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET, 0}, saysAllow},
		{unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, saysTell},
		{unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, saysAllow},
		{unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWNS}, saysTell},
		{unix.SYS_UNSHARE, []uint64{unix.CLONE_FILES}, saysAllow},
		{unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI | 1<<40}, saysTell},
		{unix.SYS_IOCTL, []uint64{0, unix.TIOCGWINSZ}, saysAllow},
		{unix.SYS_PRLIMIT64, []uint64{1, unix.RLIMIT_CPU, 0x1000}, saysTell},
		{unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CPU, 0x1000}, saysAllow},
		{unix.SYS_PRLIMIT64, []uint64{1, unix.RLIMIT_CPU, 0}, saysAllow},
		{unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 0x1000}, saysErrno},
		{unix.SYS_PTRACE, []uint64{16, 1}, saysAllow},
		{unix.SYS_MOUNT, nil, saysTell},
		{unix.SYS_MBIND, nil, saysErrno | uint32(unix.EPERM)},
		{unix.SYS_CLONE3, nil, saysErrno | uint32(unix.ENOSYS)},
	} {
		require.Equal(t, c.want, f.says(t, c.nr, c.args...), "call %d %#x", c.nr, c.args)
	}
}

// BenchmarkFilter is what every process that is started in a sandbox pays for
// its filter, besides loading it.
func BenchmarkFilter(b *testing.B) {
	for name, listener := range map[string]string{"report=true": "/x", "report=false": ""} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				compiled(b, profile(false, false, listener))
			}
		})
	}
}
