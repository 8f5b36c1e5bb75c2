package layout

import (
	"errors"
	"os"
	"path/filepath"
)

// OwnedDir makes a directory that belongs to a user, and its parents, which belong
// to root. One that is there is left as it is.
func OwnedDir(path string, uid, gid int, mode os.FileMode) error {
	err := os.Mkdir(path, mode)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.Mkdir(path, mode)
		}
	}
	if err != nil {
		return err
	}
	return os.Lchown(path, uid, gid)
}
