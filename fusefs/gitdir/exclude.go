package gitdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// excludeName is the file of git's ignore rules that are in no .gitignore.
const excludeName = "info/exclude"

// Lines around the patterns of the owner's git. They come first in the file, so that those of the agent, which
// follow, take precedence.
const (
	excludeBegin = "# Written by polis, which replaces it: what the git of the project's owner ignores.\n"
	excludeEnd   = "# End of what polis wrote.\n"
)

// Exclude makes patterns (gitignore(5)) the part of info/exclude in a git directory that is the owner's; "" is none.
// What else the file has stays. It reports whether the file is another now. uid and gid own a new one. Its user can exchange
// everything in dir: nothing outside of it is read or written.
func Exclude(dir, patterns string, uid, gid int) (changed bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, fmt.Errorf("ignore rules of the owner: %w", err)
	}
	defer root.Close()
	if changed, err = exclude(root, patterns, uid, gid); err != nil {
		return false, fmt.Errorf("ignore rules of the owner: %w", err)
	}
	return changed, nil
}

// Excluded returns the patterns that Exclude has set in a git directory; "" if there are none.
func Excluded(dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("ignore rules of the owner: %w", err)
	}
	defer root.Close()
	text, err := readBounded(root, excludeName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("ignore rules of the owner: %w", err)
	}
	patterns, _ := splitExclude(text)
	return patterns, nil
}

func exclude(root *os.Root, patterns string, uid, gid int) (changed bool, err error) {
	has, err := readBounded(root, excludeName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if len(has) == maxConfig {
		return false, fmt.Errorf("%s has %d bytes or more: %w", excludeName, maxConfig, fs.ErrInvalid)
	}
	_, rest := splitExclude(has)
	text := rest
	if patterns != "" {
		text = excludeBegin + strings.TrimSuffix(patterns, "\n") + "\n" + excludeEnd + rest
	}
	if text == has {
		return false, nil
	}
	const part = excludeName + ".polis-new"
	if err := root.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	f, err := root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return false, err
	}
	_, err = io.WriteString(f, text)
	if os.Geteuid() == 0 {
		err = errors.Join(err, f.Chown(uid, gid))
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(part, excludeName)
	}
	return err == nil, err
}

// splitExclude returns the patterns of the owner's git in info/exclude, and the rest of it.
func splitExclude(text string) (patterns, rest string) {
	before, after, ok := strings.Cut(text, excludeBegin)
	if !ok {
		return "", text
	}
	patterns, after, ok = strings.Cut(after, excludeEnd)
	if !ok {
		return "", text
	}
	return patterns, before + after
}
