package client

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// maxSocketPath is sizeof(sun_path) - 1, see unix(7).
const maxSocketPath = 107

// startHint is what starts polisd on this machine, whose /run is given.
func startHint(run string) string {
	if _, err := os.Stat(filepath.Join(run, "polis", "api.sock")); err == nil {
		return "this is a sandbox of polis: agents do not reach polisd; ask the administrator"
	}
	if _, err := os.Stat(filepath.Join(run, "systemd", "system")); err == nil { // sd_booted(3)
		return "systemctl start polisd"
	}
	return "start polisd, as root: polisd --config /etc/polis/polisd.toml"
}

// transportError explains why polisd could not be reached.
func (c *Client) transportError(ctx context.Context, err error) *api.Error {
	var known *api.Error
	switch {
	case errors.As(err, &known):
		return known
	case context.Cause(ctx) != nil:
		return contextError(ctx, "polisd")
	case len(c.Socket) > maxSocketPath:
		return api.Errorf(api.CodeBadRequest, "socket path is %d bytes long, more than the %d a unix socket can have", len(c.Socket), maxSocketPath).
			WithHint("give a shorter path with --socket or POLIS_SOCKET")
	case errors.Is(err, fs.ErrNotExist) && listens("/proc/net/unix", c.Socket):
		return api.Errorf(api.CodeUnavailable, "polisd runs, and another program removed its socket %s%w", c.Socket, quiet{err}).
			WithHint("polisd makes it again within seconds: repeat the command; if it stays away, restart polisd: agents and their tasks continue meanwhile")
	case errors.Is(err, fs.ErrNotExist):
		return api.Errorf(api.CodeUnavailable, "polisd is not running: no socket at %s%w", c.Socket, quiet{err}).
			WithHint("%s", startHint("/run"))
	case errors.Is(err, unix.ECONNREFUSED):
		return api.Errorf(api.CodeUnavailable, "polisd is not running: there is no listener at %s%w", c.Socket, quiet{err}).
			WithHint("%s", startHint("/run"))
	case errors.Is(err, fs.ErrPermission):
		return api.Errorf(api.CodeForbidden, "no permission to use %s%w", c.Socket, quiet{err}).
			WithHint("become a member of group polis: sudo usermod -aG polis $USER, then log in again")
	case isDial(err):
		return api.Errorf(api.CodeUnavailable, "polisd cannot be reached at %s: %w", c.Socket, rootCause(err)).
			WithHint("%s", startHint("/run"))
	default:
		return api.Errorf(api.CodeUnavailable, "connection to polisd was lost: %w", rootCause(err)).
			WithHint("polisd may have been restarted; see: polisctl status")
	}
}

// contextError names why ctx ended.
func contextError(ctx context.Context, who string) *api.Error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		return api.Errorf(api.CodeTimeout, "%s did not answer in time%w", who, quiet{cause}).
			WithHint("the work may still continue: see polisctl status; a longer time is given by --timeout")
	}
	return api.Errorf(api.CodeTimeout, "interrupted%w", quiet{cause})
}

// quiet keeps a cause for errors.Is without repeating its text.
type quiet struct{ error }

func (quiet) Error() string   { return "" }
func (q quiet) Unwrap() error { return q.error }

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// rootCause strips the URL and the operation net/http puts in front.
func rootCause(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
