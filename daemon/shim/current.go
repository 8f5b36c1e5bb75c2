package shim

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"polis/daemon/rules/approval"
)

func (v *views) open(path string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	if v.merged != nil {
		return v.merged.Open(path, flags)
	}
	return unix.Openat2(int(v.content.Fd()), path, &unix.OpenHow{
		Flags:   flags,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// current returns a file of the worktree as it is now, for people. It follows no link, leaves the
// worktree by no path, and waits for no reader or writer of a pipe.
func (v *views) current(path string) (text string, ok bool) {
	if v.content == nil {
		return "", false
	}
	fd, err := v.open(path)
	if err != nil {
		return "", false
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || fi.Size() > approval.MaxDiffFile {
		return "", false
	}
	b, err := io.ReadAll(io.LimitReader(f, approval.MaxDiffFile+1))
	return string(b), err == nil && len(b) <= approval.MaxDiffFile
}
