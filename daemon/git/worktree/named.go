package worktree

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"polis/internal/pinned"
)

// namedBy returns the path by which a person named the project at real, if it has symbolic links: conditions of the
// owner's git configuration (includeIf "gitdir:") can be of that path. Every name of it must belong to root or to the
// owner of the project: nobody else chooses which conditions hold. Else it is "".
func namedBy(path, real string, uid uint32) string {
	path = filepath.Clean(path)
	if path == real || len(path) >= unix.PathMax || strings.ContainsAny(path, "\x00\n\r") {
		return ""
	}
	for at := path; at != "/"; at = filepath.Dir(at) {
		var st unix.Stat_t
		if unix.Lstat(at, &st) != nil || st.Uid != 0 && st.Uid != uid {
			return ""
		}
	}
	return path
}

// Owners runs a git command that prints what the owner of the project, with this home, has configured there: of the system,
// of the owner, of the project and the worktree, with what they include, and as far as their conditions hold for the
// project. It is caged, bounded, and reads the configuration as data.
func (p *Project) Owners(ctx context.Context, home string, args ...string) ([]byte, error) {
	cmd := owners(home, args...)
	if !p.isNamed() {
		return p.Do(ctx, cmd)
	}
	dir, err := p.Open()
	if err != nil {
		return nil, err
	}
	// In the directory of a repository git names the git directory by PWD, if that is the same directory, and compares conditions
	// with that name and with the one without links. It is so for the owner's own git there.
	cmd.Dir, cmd.Env, cmd.Config = pinned.DirPath(dir), []string{"PWD=" + p.record.Named}, []string{"safe.directory=" + p.Path}
	out, err := p.Runner.Run(ctx, cmd)
	return out, errors.Join(err, dir.Close())
}

// isNamed reports whether the owner's git finds the repository from the project's directory, by a name with links.
func (p *Project) isNamed() bool { return p.record.Named != "" && !p.Bare }

// origin is the absolute path of a file that git, run by Owners, names.
func (p *Project) origin(file string) string {
	switch {
	case filepath.IsAbs(file):
		return file
	case p.isNamed():
		return filepath.Join(p.Path, file)
	}
	return filepath.Join(p.Dir, file)
}

// Named is the path of the project as its owner named it: with symbolic links if it had some.
func (p *Project) Named() string {
	if p.record.Named != "" {
		return p.record.Named
	}
	return p.Path
}
