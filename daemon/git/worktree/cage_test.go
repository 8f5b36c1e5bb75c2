package worktree

import (
	"os"
	"os/exec"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// TestWithoutACageThereIsNoGit takes Landlock from a process and has it work on
// a workspace: it starts no git at all.
func TestWithoutACageThereIsNoGit(t *testing.T) {
	needRoot(t)
	const child = "POLIS_TEST_WITHOUT_LANDLOCK"
	if os.Getenv(child) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWithoutACageThereIsNoGit$", "-test.count=1", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "--- PASS: TestWithoutACageThereIsNoGit")
		return
	}
	src := project(t)
	// As on a kernel before 5.13: the calls are not there, for no thread.
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ, K: unix.SYS_LANDLOCK_CREATE_RULESET, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	require.Zero(t, e)

	s := spec(t, src)
	_, err := Up(t.Context(), s)
	require.Equal(t, api.CodeCageUnavailable, api.CodeOf(err), "%v", err)
	require.Equal(t, "Linux 5.13 or newer with Landlock and seccomp is needed; polisctl doctor shows details", api.AsError(err).Hint)
	w := Open(Config{Workspace: s.Workspace, UID: s.UID, GID: s.GID})
	for name, try := range map[string]func() error{
		"status": func() error { _, err := w.Status(t.Context(), "claude", "", View{}); return err },
		"diff":   func() error { return w.Diff(t.Context(), "claude", DiffOptions{}, os.Stdout) },
		"add":    func() error { _, err := w.Add(t.Context(), "claude", "", ""); return err },
	} {
		require.Equal(t, api.CodeCageUnavailable, api.CodeOf(try()), name)
	}
	_, err = w.Bare().Run(t.Context(), "version")
	require.ErrorContains(t, err, "cannot be confined")
}
