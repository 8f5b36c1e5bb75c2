package worktree

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/internal/asuser"
)

// Bounds of one of the owner's files of ignore rules: larger ones slow down every status.
const (
	maxIgnored      = 64 << 10
	maxIgnoredLines = 4000
)

// Ignored returns the patterns (gitignore(5)) by which the git of the project's owner ignores files beside those of
// .gitignore: core.excludesFile, then info/exclude, which takes precedence. The files are read with the rights of the
// owner. With an error it returns the patterns that could be read.
func (o *OwnersGit) Ignored() (string, error) {
	p := o.p
	file, err := o.excludesFile()
	var errs []error
	if err != nil {
		errs = append(errs, err)
	}
	var lines []string
	for _, path := range []string{file, filepath.Join(p.CommonDir(), "info/exclude")} {
		if path == "" {
			continue
		}
		text, err := p.readAsOwner(path, maxIgnored)
		if err == nil && strings.Count(text, "\n") > maxIgnoredLines {
			err = fmt.Errorf("%d lines are too many: at most %d", strings.Count(text, "\n"), maxIgnoredLines)
		}
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		default:
			lines = append(lines, patterns(text)...)
		}
	}
	if len(lines) == 0 {
		return "", errors.Join(errs...)
	}
	return strings.Join(lines, "\n") + "\n", errors.Join(errs...)
}

// patterns returns the lines of a file of ignore rules that are patterns.
func patterns(text string) []string {
	lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	return slices.DeleteFunc(lines, func(line string) bool {
		return strings.TrimRight(line, "\r") == "" || strings.HasPrefix(line, "#")
	})
}

// excludesFile is the path of the owner's core.excludesFile; "" if there is none. Agents see its content: a
// configuration that the project's files contain, which merges change, does not choose it.
func (o *OwnersGit) excludesFile() (string, error) {
	set, ok := o.last["core.excludesfile"]
	path := set.value
	switch {
	case !ok && filepath.IsAbs(o.home):
		return filepath.Join(o.home, ".config/git/ignore"), nil
	case path == "":
		return "", nil
	case o.p.tracked(set.file):
		return "", fmt.Errorf("core.excludesFile is configured in %q, which is a file of the project itself: it is not used", api.Shorten(set.file, 200))
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok && filepath.IsAbs(o.home) {
		return filepath.Join(o.home, rest), nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(o.p.Path, path)
	}
	return path, nil
}

// tracked reports whether a file that git names is in the working tree of the project.
func (p *Project) tracked(file string) bool {
	file = p.origin(file)
	err := asuser.Do(p.Owner.UID, p.Owner.GID, func() error {
		real, err := filepath.EvalSymlinks(file)
		file = real
		return err
	})
	if err != nil {
		return true // git has just read it, and its owner exchanges it
	}
	return within(p.Path, file) && !within(p.Dir, file) && !within(filepath.Join(p.Path, ".git"), file)
}

// CommonDir is the git directory that the worktrees of the project share (gitrepository-layout(5), commondir).
func (p *Project) CommonDir() string {
	text, err := p.readAsOwner(filepath.Join(p.Dir, "commondir"), unix.PathMax)
	dir := strings.TrimSuffix(text, "\n")
	switch {
	case err != nil || dir == "":
		return p.Dir
	case filepath.IsAbs(dir):
		return dir
	}
	return filepath.Join(p.Dir, dir)
}

// readAsOwner reads a regular file of at most most bytes with the rights of the project's owner, who can exchange it.
func (p *Project) readAsOwner(path string, most int64) (text string, err error) {
	err = asuser.Do(p.Owner.UID, p.Owner.GID, func() error {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
			return errors.Join(err, errors.New("it is not a regular file"))
		}
		b, err := io.ReadAll(io.LimitReader(f, most+1))
		switch {
		case err != nil:
			return err
		case int64(len(b)) > most:
			return fmt.Errorf("it has more than %d bytes", most)
		case strings.ContainsRune(string(b), 0):
			return errors.New("it is not a text")
		}
		text = string(b)
		return nil
	})
	return text, err
}
