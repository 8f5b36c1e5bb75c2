package excludes

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// name is the file of git's ignore rules that are in no .gitignore.
const name = "info/exclude"

// maxSize is the largest file that is changed, in bytes.
const maxSize = 1 << 20

// Lines around the patterns of the owner's git. They come first in the file, so that those of the agent, which
// follow, take precedence.
const (
	begin = "# Written by polis, which replaces it: what the git of the project's owner ignores.\n"
	end   = "# End of what polis wrote.\n"
)

// Set makes patterns (gitignore(5)) the part of info/exclude in a git directory that is the owner's; "" is none.
// What else the file has stays. It reports whether the file is another now. uid and gid own a new one. Its user can exchange
// everything in dir: nothing outside of it is read or written.
func Set(dir, patterns string, uid, gid int) (changed bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, fmt.Errorf("ignore rules of the owner: %w", err)
	}
	defer root.Close()
	if changed, err = set(root, patterns, uid, gid); err != nil {
		return false, fmt.Errorf("ignore rules of the owner: %w", err)
	}
	return changed, nil
}

// Patterns returns the patterns that Set has written in a git directory; "" if there are none.
func Patterns(dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("ignore rules of the owner: %w", err)
	}
	defer root.Close()
	text, err := read(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("ignore rules of the owner: %w", err)
	}
	patterns, _ := split(text)
	return patterns, nil
}

func set(root *os.Root, patterns string, uid, gid int) (changed bool, err error) {
	has, err := read(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if len(has) == maxSize {
		return false, fmt.Errorf("%s has %d bytes or more: %w", name, maxSize, fs.ErrInvalid)
	}
	_, rest := split(has)
	text := rest
	if patterns != "" {
		text = begin + strings.TrimSuffix(patterns, "\n") + "\n" + end + rest
	}
	if text == has {
		return false, nil
	}
	const part = name + ".polis-new"
	if err := root.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	f, err := root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false, err
	}
	_, err = io.WriteString(f, text)
	if os.Geteuid() == 0 {
		err = errors.Join(err, f.Chown(uid, gid))
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(part, name)
	}
	return err == nil, err
}

// split returns the patterns of the owner's git in info/exclude, and the rest of it.
func split(text string) (patterns, rest string) {
	before, after, ok := strings.Cut(text, begin)
	if !ok {
		return "", text
	}
	patterns, after, ok = strings.Cut(after, end)
	if !ok {
		return "", text
	}
	return patterns, before + after
}

// read reads the file, if it is regular.
func read(root *os.Root) (string, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return "", errors.Join(err, fmt.Errorf("%s is not a regular file: %w", name, fs.ErrInvalid))
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSize))
	return string(b), err
}
