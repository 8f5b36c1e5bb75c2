package shim

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"polis/fusefs"
	"polis/lockd"
)

// maxCompared is the size in bytes up to which a file is read before the first change under a lease, and after the last.
const maxCompared = 1 << 20

// fileState is what a lease protects of a file. The zero value is that of no file.
type fileState struct {
	mode, uid, gid uint32
	size           int64
	sum            [sha256.Size]byte
}

var noFile any = fileState{}

// compareFiles ends the leases of files that are as they were: equal content was written, or none, or the times or the
// mode were set to what they were.
func compareFiles(v *views) *lockd.Compare {
	begins := []fusefs.Op{fusefs.OpOpenWrite, fusefs.OpSetattr, fusefs.OpCreate, fusefs.OpRename}
	// Not after a create: the file of a temporary name is renamed later.
	ends := []fusefs.Op{fusefs.OpOpenWrite, fusefs.OpSetattr, fusefs.OpRename}
	return &lockd.Compare{
		Begins: func(op string) bool { return slices.Contains(begins, fusefs.Op(op)) },
		Ends:   func(op string) bool { return slices.Contains(ends, fusefs.Op(op)) },
		State: func(key string) (any, bool) {
			if gitKey(key) || v.content == nil {
				return nil, false
			}
			return stateAt(v.open, lockd.FilePath(key))
		},
	}
}

// stateAt returns the state of a file; ok is false if it is too large, or something else than a file.
func stateAt(open func(path string) (int, error), path string) (state any, ok bool) {
	fd, err := open(path)
	if errors.Is(err, unix.ENOENT) {
		return noFile, true
	}
	if err != nil {
		return nil, false
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > maxCompared {
		return nil, false
	}
	h := sha256.New()
	if n, err := io.Copy(h, io.LimitReader(f, maxCompared+1)); err != nil || n != st.Size {
		return nil, false
	}
	return fileState{mode: st.Mode, uid: st.Uid, gid: st.Gid, size: st.Size, sum: [sha256.Size]byte(h.Sum(nil))}, true
}

// heldUntil says how long another agent's lease is held.
func heldUntil(u lockd.Until) string {
	switch {
	case !u.At.IsZero():
		return "until " + u.At.UTC().Format(time.RFC3339)
	case u.Merge:
		return "until that work is merged"
	case u.Explicit:
		return "until it is unlocked"
	case u.After > 0:
		return fmt.Sprintf("until %s after the last change (locks.hold)", u.After)
	}
	return "while it is in use"
}
