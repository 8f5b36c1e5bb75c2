package check

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"

	"polis/daemon/host/walk"
	"polis/daemon/shim/job"
	"polis/daemon/store/layout"
)

// logRE is the form of a log's name (job.LogName).
var logRE = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}\.[0-9]+-[0-9A-Za-z]{1,12}\.log$`)

// OpenLog opens a log of a check in a workspace. Only the name in log counts: the owner of the project, uid, can move
// the workspace, and a directory above it can be the owner's. It returns fs.ErrNotExist if the log is not kept any more.
func OpenLog(root layout.Workspace, uid uint32, log string) (*os.File, error) {
	name := filepath.Base(log)
	if !logRE.MatchString(name) {
		return nil, fmt.Errorf("log of a check %q: %w", name, os.ErrInvalid)
	}
	own, err := walk.Own(root.Dir(), uid)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	fd, err := walk.File(own, filepath.Join(filepath.Base(root.CheckLogs()), name), uid, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("log of a check %q: it is no file", name)
	}
	return f, nil
}

// Output returns the last lines of the output of a check, at most so many bytes, and whether there is more before them.
func Output(root layout.Workspace, uid uint32, log string, lines int, most int64) (text string, size int64, cut bool, err error) {
	f, err := OpenLog(root, uid, log)
	if err != nil {
		return "", 0, false, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", 0, false, err
	}
	text, cut, err = job.LastLines(f, fi.Size(), lines, most)
	return text, fi.Size(), cut, err
}
