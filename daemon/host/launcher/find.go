package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// findFresh is how long what was found in /proc is used again. A shim that is started
// meanwhile is known by its file.
const findFresh = 500 * time.Millisecond

// process is one life of a process number.
type process struct {
	pid  int
	born uint64
}

// find returns the shim of dir by what it was started with, or 0: its own files may be gone
// while it lives.
func (f *Fork) find(dir string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.at) > findFresh {
		found, err := running()
		if err != nil {
			return 0, err
		}
		f.found, f.at = found, time.Now()
	}
	p, ok := f.found[filepath.Clean(dir)]
	if !ok {
		return 0, nil
	}
	at, over, err := born(p.pid)
	if err != nil || over || at != p.born {
		return 0, nil //nolint:nilerr // it has ended
	}
	return p.pid, nil
}

// Names returns the agents below agentsDir whose shims run, known by their files or not.
func (f *Fork) Names(agentsDir string) ([]string, error) {
	found, err := running()
	if err != nil {
		return nil, err
	}
	var names []string
	for dir := range found {
		if filepath.Dir(dir) == filepath.Clean(agentsDir) {
			names = append(names, filepath.Base(dir))
		}
	}
	slices.Sort(names)
	return names, nil
}

// running returns the shims of this machine by the directory of their spec: root's
// processes that were started with it, in this mount namespace, where that path means
// the same.
func running() (map[string]process, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for shims: %w", err)
	}
	mine, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil, fmt.Errorf("look for shims: %w", err)
	}
	found := map[string]process{}
	for _, e := range names {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir, err := specDir(pid, mine)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || err == nil && dir == "" {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for shims: %w", err)
		}
		at, over, err := born(pid)
		if err != nil || over {
			continue // it has ended meanwhile
		}
		// What it forks looks like it until it executes: the shim is the oldest.
		if have, ok := found[dir]; !ok || at < have.born {
			found[dir] = process{pid, at}
		}
	}
	return found, nil
}

// specDir is the directory a shim with this number serves; empty if it is no shim.
func specDir(pid int, mntns string) (string, error) {
	proc := "/proc/" + strconv.Itoa(pid)
	b, err := os.ReadFile(proc + "/cmdline")
	if err != nil {
		return "", err
	}
	args := strings.Split(string(bytes.TrimRight(b, "\x00")), "\x00")
	// The program, or an interpreter and the program, then --spec FILE and nothing else.
	n := len(args) - 2
	if n < 1 || n > 2 || args[n] != "--spec" || filepath.Base(args[n+1]) != "spec.json" || !filepath.IsAbs(args[n+1]) {
		return "", nil
	}
	fi, err := os.Stat(proc)
	if err != nil {
		return "", err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !ok || st.Uid != 0 {
		return "", nil
	}
	ns, err := os.Readlink(proc + "/ns/mnt")
	if err != nil || ns != mntns {
		return "", err
	}
	return filepath.Dir(filepath.Clean(args[n+1])), nil
}
