package doctor

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// inotify reports whether this user has inotify instances left, of which each workspace takes one (inotify(7), limits).
func (d *Doctor) inotify(context.Context) api.Check {
	return d.instances(unix.InotifyInit1)
}

func (d *Doctor) instances(open func(flags int) (int, error)) api.Check {
	const name = "inotify"
	fd, err := open(unix.IN_CLOEXEC)
	if err != nil {
		return bad(name, api.CheckWarn, fmt.Sprintf("no instance left: %v", err), "commits of agents are seen up to five seconds late, and followed logs are polled",
			"sysctl fs.inotify.max_user_instances=1024 (in /etc/sysctl.d for the next boot), then restart polisd").by(restarted("sudo sysctl fs.inotify.max_user_instances=1024"))
	}
	if err := unix.Close(fd); err != nil {
		return bad(name, api.CheckWarn, err.Error(), "unknown whether inotify works", "check again").by("polisctl doctor")
	}
	return ok(name, "an instance for each workspace")
}
