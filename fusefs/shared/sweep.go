package shared

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Sweep takes content that no agent has any more out of the store at path. It
// may run while agents use the store: what is linked meanwhile keeps its inode,
// and a link that comes too late is answered as if content could not be shared.
// It returns how many files went.
func Sweep(ctx context.Context, path string) (int, error) {
	n := 0
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			return nil
		}
		fi, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || st.Nlink > 1 {
			return nil
		}
		n++
		return os.Remove(p)
	})
	if err != nil {
		return n, fmt.Errorf("shared: clear up the store: %w", err)
	}
	return n, nil
}
