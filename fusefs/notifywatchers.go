package fusefs

import (
	"log/slog"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// Programs that watch a tree (inotify(7)) learn only of what is done through it.
// After a change behind the view the server therefore sets an attribute that
// is not there: nothing is stored, and the watchers of the object and of its directory
// get IN_ATTRIB.
const notifyName = virtualPrefix + "changed"

// notifyWatchers notifies those who watch name, or what is left of the way to it. It goes
// through the mount, so it must not be called by who serves a request.
func (fs *FS) notifyWatchers(name string) {
	root, err := unix.Open(fs.cfg.Mountpoint, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // unmounted: nobody watches
	}
	defer backing.Close(root)
	var st unix.Stat_t
	if err := unix.Fstat(root, &st); err != nil || fs.connID.Load() == 0 || unix.Minor(st.Dev) != fs.connID.Load() {
		return // what is mounted there is not this view
	}
	for name = path.Clean("/" + name)[1:]; ; {
		fd, e := root, error(nil)
		if name != "" {
			fd, e = unix.Openat2(root, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: backing.ResolveFlags})
		}
		if e == nil {
			if err := unix.Setxattr(backing.ProcPath(fd), notifyName, nil, 0); err != nil {
				fs.log.Debug("watchers are not notified", slog.String("op", "notify-watchers"), slog.String("path", name), slog.Any("err", err))
			}
			if fd != root {
				backing.Close(fd)
			}
			return
		}
		if name == "" {
			return
		}
		if name = path.Dir(name); name == "." {
			name = ""
		}
	}
}

// ourThread reports whether a request was made by this process itself.
func ourThread(tid uint32) bool {
	return unix.Access("/proc/self/task/"+strconv.FormatUint(uint64(tid), 10), unix.F_OK) == nil
}
