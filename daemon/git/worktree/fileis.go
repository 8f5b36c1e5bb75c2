package worktree

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// FileIs reports whether a file of an agent's worktree, below the view, has the content with an object id; with ""
// whether there is none. What cannot be read is something else.
func (w *Workspace) FileIs(agent, name, id string) bool {
	root, err := w.Lower(agent)
	if err != nil {
		return false
	}
	defer root.Close()
	f, err := openBelow(root, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return id == "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR))
	}
	fi, err := f.Stat()
	f.Close()
	if err != nil || id == "" || !fi.Mode().IsRegular() || unsavable(fi) {
		return false
	}
	return hashFile(root, name, fi.Size(), len(id)) == id
}

// hashFile returns the object id, of that many digits, of a file; "" if it cannot be read.
func hashFile(root *os.File, name string, size int64, digits int) string {
	f, err := openBelow(root, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := objectHash(digits)
	fmt.Fprintf(h, "blob %d\x00", size)
	if n, err := io.Copy(h, io.LimitReader(f, size)); err != nil || n != size {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
