package sessionbus

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
)

const (
	runtimes = "/run/user"
	service  = "org.freedesktop.Notifications"
	// patience is how long something is waited for on a busy machine.
	patience = 30 * time.Second
)

// config has no directory of services: nothing is started by the bus. The test, which is root, may connect.
const config = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=%s</listen>
  <auth>EXTERNAL</auth>
  <policy context="default"><allow user="root"/><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy>
</busconfig>
`

// Dir makes the directory of a user who is logged in, /run/user/UID. It needs root.
func Dir(t testing.TB, uid int) string {
	t.Helper()
	if err := os.Mkdir(runtimes, 0o755); err == nil { //nolint:gosec // as systemd-logind does
		t.Cleanup(func() { _ = os.Remove(runtimes) }) //nolint:errcheck // another test may use it
	} else {
		require.ErrorIs(t, err, os.ErrExist)
	}
	dir := filepath.Join(runtimes, strconv.Itoa(uid))
	require.NoError(t, os.Mkdir(dir, 0o700))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) }) //nolint:forbidigo // a test; nothing is mounted below it
	require.NoError(t, os.Chown(dir, uid, uid))
	return dir
}

// Start starts a session bus in a directory that Dir made. It needs dbus-daemon.
func Start(t testing.TB, dir string, uid int) *Bus {
	t.Helper()
	at := filepath.Join(dir, "bus")
	file := filepath.Join(dir, "session.conf")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, config, at), 0o644))                                                   //nolint:gosec // the user's bus reads it
	cmd := exec.CommandContext(t.Context(), "dbus-daemon", "--config-file="+file, "--nofork", "--nopidfile", "--print-address=1") //nolint:forbidigo // a test
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}, Pdeathsig: syscall.SIGKILL}
	cmd.Dir, cmd.Stderr, cmd.WaitDelay = "/", os.Stderr, time.Second
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	b := &Bus{path: at, stop: func() {
		_ = cmd.Process.Kill() //nolint:errcheck // it has ended
		_ = cmd.Wait()         //nolint:errcheck // it was killed
	}}
	t.Cleanup(func() { b.Stop() })
	said := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(out).ReadString('\n')
		said <- fmt.Sprint(line, err)
	}()
	select {
	case line := <-said:
		require.True(t, strings.HasPrefix(line, "unix:"), line)
	case <-time.After(patience):
		require.Fail(t, "dbus-daemon does not listen")
	}
	return b
}

// Bus is a session bus.
type Bus struct {
	path string
	stop func()
}

// Stop ends the bus and leaves its socket.
func (b *Bus) Stop() {
	if b.stop != nil {
		b.stop()
		b.stop = nil
	}
}

// Shown is what a program was to show, and who sent it.
type Shown struct {
	UID                    uint32 // of the process that sent it
	App, Icon, Title, Body string
	Actions                []string
	Replaces               uint32
}

// Receive has a program at the bus that shows notifications, until release.
func (b *Bus) Receive(t testing.TB) (next func() Shown, release func()) {
	t.Helper()
	conn, err := dbus.Dial("unix:path=" + b.path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) //nolint:errcheck // it may be closed
	require.NoError(t, conn.Auth(nil))
	require.NoError(t, conn.Hello())
	r := &receiver{conn: conn, all: make(chan Shown, 100)}
	require.NoError(t, conn.Export(r, "/org/freedesktop/Notifications", service))
	got, err := conn.RequestName(service, dbus.NameFlagDoNotQueue)
	require.NoError(t, err)
	require.Equal(t, dbus.RequestNameReplyPrimaryOwner, got)
	next = func() Shown {
		t.Helper()
		select {
		case s := <-r.all:
			return s
		case <-time.After(4 * patience):
			require.Fail(t, "no notification was shown")
		}
		return Shown{}
	}
	return next, func() {
		_, err := conn.ReleaseName(service)
		require.NoError(t, err)
	}
}

// receiver has the methods of org.freedesktop.Notifications that a sender needs.
type receiver struct {
	conn *dbus.Conn
	all  chan Shown
}

// Notify is part of the interface of the service.
func (r *receiver) Notify(from dbus.Sender, app string, replaces uint32, icon, title, body string, actions []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	s := Shown{App: app, Icon: icon, Title: title, Body: body, Actions: actions, Replaces: replaces}
	if err := r.conn.BusObject().Call("org.freedesktop.DBus.GetConnectionUnixUser", 0, string(from)).Store(&s.UID); err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	r.all <- s
	return 1, nil
}
