package fusefs

import (
	"context"
	"log/slog"
	"path"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/apart"
	"polis/fusefs/backing"
)

// Programs that watch a tree (inotify(7)) learn only of what is done through it.
// After a change behind the view the server therefore sets an attribute that
// is not there: nothing is stored, and the watchers of the object and of its directory
// get IN_ATTRIB.
const notifyName = virtualPrefix + "changed"

// notifyWatchers notifies those who watch names, or what is left of the way to them. It goes
// through the mount, so it must not be called by who serves a request, and this process must not keep the
// connection meanwhile: see package apart.
func (fs *FS) notifyWatchers(names ...string) {
	if len(names) == 0 {
		return
	}
	err := apart.Do(context.Background(), func() error { // it ends with the connection at the latest
		for _, name := range names {
			fs.nudge(name)
		}
		return nil
	})
	if err != nil {
		fs.log.Warn("watchers are not notified", slog.String("op", "notify-watchers"), slog.Any("err", err))
	}
}

// nudge notifies those who watch name.
func (fs *FS) nudge(name string) {
	root := fs.openMount(false)
	if root < 0 {
		return
	}
	defer backing.Close(root)
	nudgeAt(root, name, fs.log)
}

// nudgeAt is nudge below the root directory of the mount.
func nudgeAt(root int, name string, log *slog.Logger) {
	for name = path.Clean("/" + name)[1:]; ; {
		fd, e := root, error(nil)
		if name != "" {
			fd, e = openOnMount(root, name)
		}
		if e == nil {
			if err := unix.Setxattr(threadPath(fd), notifyName, nil, 0); err != nil {
				log.Debug("watchers are not notified", slog.String("op", "notify-watchers"), slog.String("path", name), slog.Any("err", err))
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

// threadPath is the path of a descriptor of this thread.
func threadPath(fd int) string { return "/proc/thread-self/fd/" + strconv.Itoa(fd) }

// ourThread reports whether a request was made by this process itself.
func ourThread(tid uint32) bool {
	return unix.Access("/proc/self/task/"+strconv.FormatUint(uint64(tid), 10), unix.F_OK) == nil
}

// echoAnswer is the value of notifyName for the thread of an echo: the object is this view's.
const echoAnswer = "view"

func answerXattr(dest []byte) syscall.Errno {
	if len(dest) > 0 && copy(dest, echoAnswer) < len(echoAnswer) {
		return syscall.ERANGE
	}
	return 0
}
