package desktop

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/internal/need"
	"polis/internal/sessionbus"
)

// user has an entry in every passwd(5).
const user = 65534

// hidden is the environment of the test process that has a /run of its own.
const hidden = "POLIS_TEST_RUN"

// TestMain lets the test binary be the child, as polisd is, and runs the tests with a /run of their own: users of this
// machine are logged in or not.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--"+Flag {
		if err := Child(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Geteuid() != 0 || os.Getenv(hidden) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.CommandContext(context.Background(), "/bin/sh", append([]string{"-c", `mount -t tmpfs tmpfs /run && exec "$0" "$@"`}, os.Args...)...)
	cmd.Env = append(os.Environ(), hidden+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func credential() *syscall.Credential { return &syscall.Credential{Uid: user, Gid: user} }

// unseen requires that a note is not shown, for a reason.
func unseen(t *testing.T, want Reason, detail string) {
	t.Helper()
	err := Show(t.Context(), credential(), Note{Title: "x"})
	var u *UnseenError
	require.ErrorAs(t, err, &u)
	require.Equal(t, want, u.Reason, err)
	require.Contains(t, u.Detail, detail)
}

// TestANoteIsShownInTheSessionOfItsUser with the rights of the user, as text.
func TestANoteIsShownInTheSessionOfItsUser(t *testing.T) {
	need.Root(t)
	need.Program(t, "dbus-daemon")
	bus := sessionbus.Start(t, sessionbus.Dir(t, user), user)
	next, release := bus.Receive(t)
	require.NoError(t, Show(t.Context(), credential(), Note{Title: "--help\x1b[2K", Lines: []string{
		"-x <b>bold</b> & <img src=\"/etc/passwd\"/>\nforged\x00\x07", "a\u202eb \xff", strings.Repeat("é", 1000), "4", "5"}}))
	s := next()
	require.EqualValues(t, user, s.UID, "the sender")
	require.Equal(t, "polis", s.App)
	require.Empty(t, s.Icon)
	require.Empty(t, s.Actions)
	require.Zero(t, s.Replaces)
	require.Equal(t, `--help\x1b[2K`, s.Title)
	lines := strings.Split(s.Body, "\n")
	require.Len(t, lines, 4)
	require.Equal(t, `-x &lt;b&gt;bold&lt;/b&gt; &amp; &lt;img src="/etc/passwd"/&gt;\x0aforged\x00\x07`, lines[0])
	require.Equal(t, `a\u202eb \xff`, lines[1])
	require.Equal(t, strings.Repeat("é", maxLine-1)+"…", lines[2])
	require.Equal(t, "4", lines[3])

	release()
	unseen(t, NoProgram, "org.freedesktop.Notifications")
	bus.Stop()
	unseen(t, NoSession, "") // its socket is left
}

// TestRootSeesNothing: neither as the user of a note nor as the child.
func TestRootSeesNothing(t *testing.T) {
	need.Root(t)
	require.ErrorContains(t, Show(t.Context(), &syscall.Credential{}, Note{Title: "x"}), "root")
	var out bytes.Buffer
	require.ErrorContains(t, Child(t.Context(), strings.NewReader(`{"title":"x"}`), &out), "root")
	require.Empty(t, out.String())
}

// TestTheChildIsTheUsersToSeeAndNotToTrace: its user could keep it from being reaped.
func TestTheChildIsTheUsersToSeeAndNotToTrace(t *testing.T) {
	need.Root(t)
	cmd := exec.CommandContext(t.Context(), self, "--"+Flag)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential()}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var st unix.Stat_t
	require.Eventually(t, func() bool { // proc(5): what cannot be traced is root's
		return unix.Stat(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid), &st) == nil && st.Uid == 0
	}, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, in.Close())
	require.Error(t, cmd.Wait(), "there was no note")
}

// TestOnlyTheUsersOwnBusIsUsed: what is at its path otherwise is a reason, and nothing is waited for.
func TestOnlyTheUsersOwnBusIsUsed(t *testing.T) {
	need.Root(t)
	unseen(t, NoSession, "")
	dir := sessionbus.Dir(t, user)
	unseen(t, NoSession, "")
	at := filepath.Join(dir, "bus")

	others := func() {
		require.NoError(t, os.Chown(dir, 1, 1))
		unseen(t, Failed, "is not what a login of user 65534 makes")
		require.NoError(t, os.Chown(dir, user, user))
	}
	others()
	require.NoError(t, unix.Mkfifo(at, 0o666))
	require.NoError(t, os.Chown(at, user, user))
	unseen(t, Failed, "is not what a login")
	require.NoError(t, os.Remove(at))

	// Of another user: as a socket, by a link, and behind a socket of the user.
	var l net.ListenConfig
	other, err := l.Listen(t.Context(), "unix", at)
	require.NoError(t, err)
	defer other.Close()
	unseen(t, Failed, "is not what a login")
	require.NoError(t, os.Chown(at, user, user))
	unseen(t, Failed, "a process of user 0 listens")
	moved := filepath.Join(dir, "moved")
	require.NoError(t, os.Rename(at, moved))
	require.NoError(t, os.Symlink(moved, at))
	unseen(t, Failed, "is not what a login")
}

// TestABusThatNeverAnswersIsNotWaitedFor longer than the exchange may take.
func TestABusThatNeverAnswersIsNotWaitedFor(t *testing.T) {
	need.Root(t)
	need.Program(t, "/usr/bin/python3")
	dir := sessionbus.Dir(t, user)
	at := filepath.Join(dir, "bus")
	for name, does := range map[string]string{"silence": "time.sleep(600)", "noise": `c.sendall(b"REJECTED " * 10_000_000)`} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c",
				"import socket, sys, time\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\nprint(flush=True)\nc, _ = s.accept()\n"+does, at)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential()}
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			_, err = out.Read(make([]byte, 1))
			require.NoError(t, err)
			began := time.Now()
			unseen(t, Failed, "")
			require.Less(t, time.Since(began), timeout+10*time.Second)
			require.NoError(t, syscall.Kill(cmd.Process.Pid, syscall.SIGKILL))
			_ = cmd.Wait() //nolint:errcheck // it was killed, or has ended
			require.NoError(t, os.Remove(at))
		})
	}
}

// TestPropertyOnlyTextIsShown: of no text is anything left that a program would act on, and its size is bounded.
func TestPropertyOnlyTextIsShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.Map(rapid.String(), func(s string) string { return strings.Repeat(s, 200) }))
		n := bounded(Note{Title: text.Draw(t, "title"), Lines: rapid.SliceOf(text).Draw(t, "lines")})
		body := n.body()
		require.LessOrEqual(t, utf8.RuneCountInString(n.Title), maxTitle)
		require.LessOrEqual(t, utf8.RuneCountInString(body), maxLines*(maxLine*len("&amp;")+1))
		require.True(t, utf8.ValidString(n.Title+body))
		require.Less(t, strings.Count(body, "\n"), maxLines)
		require.False(t, strings.ContainsFunc(n.Title+strings.ReplaceAll(body, "\n", ""), func(r rune) bool { return !unicode.IsPrint(r) }))
		require.NotContains(t, body, "<")
		require.NotContains(t, body, ">")
		require.NotContains(t, strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "").Replace(body), "&")
		require.Equal(t, n, bounded(n), "what is bounded stays as it is")
	})
}
