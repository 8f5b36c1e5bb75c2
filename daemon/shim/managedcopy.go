package shim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Bounds of what is copied of the host's managed settings.
const (
	maxManaged      = 1 << 20 // bytes of a file
	maxManagedFiles = 500
)

// copyManaged copies the host's own managed settings, which the mount hides: the files of the
// directory and of those in it, four deep. Others are left out, and what the agents' user may not read on the host.
func copyManaged(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	left := maxManagedFiles
	return copyManagedDir(from, to, 4, &left) // /etc/codex/skills/NAME/SKILL.md
}

func copyManagedDir(from, to string, depth int, left *int) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if *left--; err != nil || *left < 0 || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		src, dst := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch {
		case info.IsDir() && depth > 1 && info.Mode()&0o005 == 0o005:
			if err := os.MkdirAll(dst, 0o755); err != nil {
				return err
			}
			if err := copyManagedDir(src, dst, depth-1, left); err != nil {
				return err
			}
		case info.Mode().IsRegular() && info.Size() <= maxManaged && info.Mode()&0o004 != 0:
			b, err := os.ReadFile(src)
			if err != nil {
				return err
			}
			if err := replaceFile(dst, string(b)); err != nil {
				return err
			}
		}
	}
	return nil
}

// replaceable returns an error if the host has a file that copyManaged left out, and that the agents' user may read: a
// file in its place would hide settings of the administrator.
func replaceable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().IsRegular() && info.Mode()&0o004 == 0:
		return nil
	}
	return &fs.PathError{Op: "merge", Path: path, Err: fmt.Errorf("the host's own file is no regular file of at most %d bytes", maxManaged)}
}
