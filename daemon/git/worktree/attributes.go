package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
)

// maxAttributes bounds a file of attributes of the owner's, in bytes.
const maxAttributes = 1 << 20

// AttributesFiles returns the files with attributes (gitattributes(5)) that the git of the project's owner, with this home, reads
// beside .gitattributes and those of the system: core.attributesFile and info/attributes. Files without attributes are not
// among them. A file that the system configures, which agents read, is one if the owner's git reads another one in its
// place. A file whose lines the .gitattributes of the target has too, which precedes it, makes no difference and is not one. What
// cannot be read is listed, with the error.
func (p *Project) AttributesFiles(ctx context.Context, home, target string) (files []string, err error) {
	file, system, err := p.attributesFile(ctx, home)
	if err != nil {
		return nil, err
	}
	if system == file {
		system = ""
	}
	var errs []error
	for _, path := range []string{file, p.InfoAttributes(), system} {
		if path == "" {
			continue
		}
		text, err := p.readAsOwner(path, maxAttributes)
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		case err != nil:
			files, errs = append(files, path), append(errs, fmt.Errorf("%s: %w", path, err))
		case len(patterns(text)) == 0:
		case path == p.InfoAttributes() || !p.inAttributes(ctx, target, patterns(text)): // the former precedes
			files = append(files, path)
		}
	}
	return files, errors.Join(errs...)
}

// InfoAttributes is the file with the attributes of the project's git directory.
func (p *Project) InfoAttributes() string { return filepath.Join(p.CommonDir(), "info/attributes") }

// inAttributes reports whether the .gitattributes at the top of a branch has all these lines.
func (p *Project) inAttributes(ctx context.Context, branch string, lines []string) bool {
	blob := git.Branch(branch) + ":.gitattributes"
	size, err := p.Run(ctx, "cat-file", "-s", blob)
	if n, nerr := strconv.Atoi(strings.TrimSpace(string(size))); err != nil || nerr != nil || n > maxAttributes {
		return false
	}
	text, err := p.Run(ctx, "cat-file", "blob", blob)
	if err != nil {
		return false
	}
	committed := map[string]bool{}
	for _, line := range patterns(string(text)) {
		committed[line] = true
	}
	return !slices.ContainsFunc(lines, func(line string) bool { return !committed[line] })
}

// attributesFile is the owner's core.attributesFile, and that of the system; "" if there is none.
func (p *Project) attributesFile(ctx context.Context, home string) (file, system string, err error) {
	set, err := p.OwnersSettings(ctx, home, `^core\.attributesfile$`)
	if err != nil {
		return "", "", err
	}
	path := func(value string) string {
		if rest, ok := strings.CutPrefix(value, "~/"); ok && filepath.IsAbs(home) {
			value = filepath.Join(home, rest)
		}
		if value != "" && !filepath.IsAbs(value) {
			value = filepath.Join(p.Path, value)
		}
		return value
	}
	if filepath.IsAbs(home) {
		file = filepath.Join(home, ".config/git/attributes")
	}
	for _, s := range set {
		file = path(s.Value)
		if s.Scope == "system" {
			system = file
		}
	}
	return file, system, nil
}

// plainDriver are the names of filters that a pathspec can have (gitglossary(7), attr).
var plainDriver = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Filtered counts the tracked files to which the git of the project's owner, with this home, applies a filter driver. It runs
// no filter.
func (p *Project) Filtered(ctx context.Context, home, driver string) (n int, err error) {
	if !plainDriver.MatchString(driver) {
		return 0, fmt.Errorf("the filter %q has an odd name", api.Shorten(driver, 60))
	}
	file, _, err := p.attributesFile(ctx, home)
	if err != nil {
		return 0, err
	}
	cmd := owners(home, "ls-files", "--", ":(attr:filter="+driver+")")
	cmd.Dir, cmd.WorkTree, cmd.Config = p.Path, p.Path, []string{"core.attributesFile=" + file}
	cmd.Env = []string{"GIT_ATTR_NOSYSTEM=0", "GIT_LITERAL_PATHSPECS=0"}
	err = p.Lines(ctx, cmd, func(string) { n++ })
	return n, err
}

// AnnexContents reports whether the project has contents of git-annex, which polis does not read.
func (p *Project) AnnexContents() bool {
	fi, err := os.Lstat(filepath.Join(p.CommonDir(), annexObjects))
	return err == nil && fi.IsDir()
}

// Linked returns the repository of which the project is a linked worktree; "" if it has its own.
func (p *Project) Linked() string {
	if common := filepath.Clean(p.CommonDir()); common != filepath.Clean(p.Dir) {
		return common
	}
	return ""
}

// OtherWorktrees counts the linked worktrees of the project's repository, without the project; 0 if they cannot be listed.
func (p *Project) OtherWorktrees(ctx context.Context) int {
	out, err := p.Do(ctx, owners("", "worktree", "list", "--porcelain"))
	if err != nil {
		return 0
	}
	return max(0, strings.Count("\n"+string(out), "\nworktree ")-1)
}
