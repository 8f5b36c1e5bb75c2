package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// A process that serves a view and is killed while one of its threads waits for an answer of that view
// does not end: the descriptor of the connection is closed with the last thread, and that thread waits
// for the connection (kernel: Documentation/filesystems/fuse.rst, "Interrupting filesystem operations").
// polisd finds the shim dead, aborts the connections, and removes what is left.
func TestAKilledShimThatCannotEndIsEnded(t *testing.T) {
	for name, kill := range map[string]func(d *daemon, pid int){
		"polisd runs": func(_ *daemon, pid int) { must(t, syscall.Kill(pid, syscall.SIGKILL)) },
		"polisd is down": func(d *daemon, pid int) {
			require.Error(d.t, d.signal(syscall.SIGKILL))
			must(d.t, syscall.Kill(pid, syscall.SIGKILL))
			time.Sleep(100 * time.Millisecond) // it begins to end before polisd begins
			d.start()
		},
		"polisd stops": func(d *daemon, pid int) {
			must(d.t, syscall.Kill(pid, syscall.SIGKILL))
			d.stop()
			require.Empty(d.t, d.mounts())
			require.Zero(d.t, d.living())
			d.start()
		},
	} {
		for _, layers := range []string{"view", "auto"} {
			t.Run(name+", layers "+layers, func(t *testing.T) {
				d := startDaemon(t, options{config: "[locks]\non_conflict = \"10m\"\n[workspace]\nworktree = \"shared\"\nlayers = \"" + layers + "\"\n"})
				d.up()
				a := d.add("alice")
				d.add("bob")
				d.sh("alice", "echo precious > x.txt")
				d.must("lock", "main.txt", "--agent", "bob")
				pid := d.shim("alice")
				view := d.viewMount("alice")
				requireNoOwnView(t, "alice", pid)
				waitInOwnView(t, pid, filepath.Join(a.WorktreePath, "main.txt"))
				d.eventually("the request to be with the shim", func() bool {
					return strings.Contains(d.must("agents", "list", "--waiting"), "for a lock on main.txt")
				})
				id := connection(t, view)
				begun := time.Now()
				// Else this machine would hang if the test fails. Afterwards the number can be another view's.
				t.Cleanup(func() {
					if t.Failed() {
						abortConnection(id)
					}
				})
				kill(d, pid)
				d.eventually("the shim to end", func() bool { return state(pid) == "" })
				t.Logf("it ended after %s", time.Since(begun))
				again := name != "polisd runs" // the next polisd starts the agent again
				d.eventually("the agent to be cleared up", func() bool {
					a, _ := d.agent("alice")
					return a.Status == api.StatusError && strings.Contains(a.StatusReason, "shim") || again && a.Status == api.StatusIdle
				})
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				// Not on those of other tests. The namespace of a test packet can be gone by now: what counts is that it ends.
				out, err := exec.CommandContext(ctx, "df", d.mounts()...).CombinedOutput()
				require.NoError(t, ctx.Err(), "%v: %s", err, out)
				if a, _ := d.agent("alice"); a.Status == api.StatusError {
					require.Empty(t, glob(d.path("run", "agents", "alice")))
					d.must("agents", "start", "alice")
				}
				require.Equal(t, "precious\n", d.sh("alice", "cat x.txt"))
				require.Equal(t, "one\ntwo\nthree\n", d.sh("bob", "cat main.txt"), "the others continue")
			})
		}
	}
}

// requireNoOwnView requires that a shim has no descriptor of its agent's views (proc_pid_fdinfo(5)).
func requireNoOwnView(t testing.TB, agent string, pid int) {
	t.Helper()
	views := map[string]string{}
	for line := range strings.Lines(readFile("/proc/self/mountinfo")) {
		if before, after, _ := strings.Cut(line, " - "); strings.Contains(after, " polis:"+agent+" ") {
			f := strings.Fields(before)
			views[f[0]] = f[4]
		}
	}
	require.NotEmpty(t, views)
	for _, f := range glob("/proc/" + strconv.Itoa(pid) + "/fdinfo/*") {
		for line := range strings.Lines(readFile(f)) {
			if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
				require.NotContains(t, views, strings.TrimSpace(id), "descriptor %s of the shim is in the agent's own view", filepath.Base(f))
			}
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	require.NoError(t, err)
}

// connection is the number of the FUSE connection that is mounted at a path.
func connection(t testing.TB, at string) string {
	t.Helper()
	for line := range strings.Lines(readFile("/proc/self/mountinfo")) {
		if f := strings.Fields(line); f[4] == at {
			_, minor, _ := strings.Cut(f[2], ":")
			return minor
		}
	}
	t.Fatalf("nothing is mounted at %s", at)
	return ""
}

// abortConnection ends a connection if it is there.
func abortConnection(id string) {
	fs, err := unix.Fsopen("fusectl", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return
	}
	defer unix.Close(fs)
	if unix.FsconfigCreate(fs) != nil {
		return
	}
	mnt, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(mnt)
	if fd, err := unix.Openat(mnt, id+"/abort", unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
		_, _ = unix.Write(fd, []byte("1")) //nolint:errcheck // it has ended
		unix.Close(fd)
	}
}

// waitInOwnView makes a thread of a process that waits for another thread open a file for writing (ptrace(2)).
func waitInOwnView(t testing.TB, pid int, path string) {
	t.Helper()
	runtime.LockOSThread() // the kernel knows the tracer by its thread
	defer runtime.UnlockOSThread()
	for _, f := range glob("/proc/" + strconv.Itoa(pid) + "/task/*/syscall") {
		if call, _, _ := strings.Cut(readFile(f), " "); call != strconv.Itoa(unix.SYS_FUTEX) {
			continue
		}
		tid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		must(t, err)
		must(t, unix.PtraceAttach(tid))
		_, err = unix.Wait4(tid, nil, unix.WALL, nil)
		must(t, err)
		var regs unix.PtraceRegs
		must(t, unix.PtraceGetRegs(tid, &regs))
		text := make([]byte, 2)
		_, err = unix.PtracePeekText(tid, uintptr(regs.Rip-2), text)
		must(t, err)
		require.Equal(t, "\x0f\x05", string(text), "the instruction of a system call")
		at := (regs.Rsp - 4096) &^ 7
		_, err = unix.PtracePokeData(tid, uintptr(at), append([]byte(path), 0))
		must(t, err)
		dir := unix.AT_FDCWD
		regs.Rip -= 2
		regs.Rax, regs.Orig_rax = unix.SYS_OPENAT, ^uint64(0) // the call that was interrupted is not repeated
		regs.Rdi, regs.Rsi, regs.Rdx, regs.R10 = uint64(dir), at, uint64(os.O_WRONLY), 0
		must(t, unix.PtraceSetRegs(tid, &regs))
		must(t, unix.PtraceDetach(tid))
		return
	}
	t.Fatalf("no thread of %d waits for another one", pid)
}
