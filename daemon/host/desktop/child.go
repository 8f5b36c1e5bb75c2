package desktop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"polis/daemon/host/peer"
)

const (
	// runtimes has a directory for each user who is logged in, which systemd-logind makes (pam_systemd(8)).
	runtimes = "/run/user"
	service  = "org.freedesktop.Notifications"
	// exchange bounds all that the child does at the bus. It is less than timeout, so that the child has an answer.
	exchange = 10 * time.Second
	// maxSaid is how much the bus may say, in bytes.
	maxSaid = 1 << 20
)

// Child shows the note on its standard input in the session of its user, and prints how it went.
func Child(ctx context.Context, in io.Reader, out io.Writer) error {
	// It has the rights of its user, who could trace it and so keep it from ending.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("refuse to be traced: %w", err)
	}
	uid := os.Getuid()
	if uid == 0 {
		return errors.New("a notification is shown with the rights of the user who sees it, not with those of root")
	}
	var n Note
	if err := json.NewDecoder(io.LimitReader(in, maxNote)).Decode(&n); err != nil {
		return fmt.Errorf("read a notification: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, exchange)
	defer cancel()
	var a answer
	if err := show(ctx, uid, n); err != nil {
		a = answer{Reason: Failed, Detail: clean(err.Error(), maxDetail)}
		var unseen *UnseenError
		if errors.As(err, &unseen) {
			a = answer{Reason: unseen.Reason, Detail: clean(unseen.Detail, maxDetail)}
		}
	}
	return json.NewEncoder(out).Encode(a)
}

func show(ctx context.Context, uid int, n Note) (err error) {
	c, err := dial(ctx, uid)
	if err != nil {
		return err
	}
	bus, err := dbus.NewConn(c, dbus.WithContext(ctx))
	if err != nil {
		return errors.Join(err, c.Close())
	}
	defer bus.Close() //nolint:errcheck // the process ends
	if err := bus.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(uid))}); err != nil {
		return err
	}
	if err := bus.Hello(); err != nil {
		return err
	}
	call := bus.Object(service, "/org/freedesktop/Notifications").CallWithContext(ctx, service+".Notify", 0,
		"polis", uint32(0), "", n.Title, n.body(), []string{}, map[string]dbus.Variant{}, int32(-1))
	var refused dbus.Error
	if errors.As(call.Err, &refused) && nobody(refused.Name) {
		return &UnseenError{NoProgram, refused.Error()}
	}
	return call.Err
}

// nobody reports whether an error of the bus means that nothing is at the name, and nothing is started for it.
func nobody(name string) bool {
	const prefix = "org.freedesktop.DBus.Error."
	return name == prefix+"ServiceUnknown" || name == prefix+"NameHasNoOwner" || strings.HasPrefix(name, prefix+"Spawn.")
}

// dial connects to the session bus of the user, who is that of this process.
func dial(ctx context.Context, uid int) (io.ReadWriteCloser, error) {
	dir := filepath.Join(runtimes, strconv.Itoa(uid))
	for _, f := range []struct {
		path string
		kind uint32
	}{{dir, unix.S_IFDIR}, {filepath.Join(dir, "bus"), unix.S_IFSOCK}} {
		var st unix.Stat_t
		switch err := unix.Lstat(f.path, &st); {
		case errors.Is(err, unix.ENOENT):
			return nil, &UnseenError{Reason: NoSession}
		case err != nil:
			return nil, fmt.Errorf("%s: %w", f.path, err)
		case st.Mode&unix.S_IFMT != f.kind || int(st.Uid) != uid:
			return nil, fmt.Errorf("%s is not what a login of user %d makes", f.path, uid)
		}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", filepath.Join(dir, "bus"))
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT) {
		return nil, &UnseenError{Reason: NoSession} // it ended, and its socket was left
	}
	if err != nil {
		return nil, err
	}
	if err := trusted(ctx, c, uid); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return said{c, io.LimitReader(c, maxSaid)}, nil
}

// trusted gives a connection its time limit if its other end is a process of the user.
func trusted(ctx context.Context, c net.Conn, uid int) error {
	p, err := peer.Of(c)
	if err != nil {
		return err
	}
	if int(p.UID) != uid {
		return fmt.Errorf("a process of user %d listens at the session bus of user %d", p.UID, uid)
	}
	end, _ := ctx.Deadline()
	return c.SetDeadline(end)
}

// said is a connection that is read up to a bound.
type said struct {
	net.Conn
	in io.Reader
}

func (s said) Read(p []byte) (int, error) { return s.in.Read(p) }
