package cone

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Bounds of a cone.
const (
	// MaxText is the most bytes of its patterns.
	MaxText = 64 << 10
	// MaxDirs is the most directories that it names.
	MaxDirs = 1000
)

// ErrNoCone: a text is not what git writes in cone mode.
var ErrNoCone = errors.New("the patterns are not those of a cone")

// Cone is the set of directories of a sparse checkout. The zero Cone has the files at the top only.
type Cone struct {
	dirs []string // clean, sorted, none of them below another
}

// New returns the cone of directories of a repository. A name is relative to the top; it may end with a slash. The
// error names the directory and the rule.
func New(dirs ...string) (Cone, error) {
	if len(dirs) > MaxDirs {
		return Cone{}, fmt.Errorf("%d directories: at most %d", len(dirs), MaxDirs)
	}
	all := make([]string, 0, len(dirs))
	for _, dir := range dirs {
		name, err := clean(dir)
		if err != nil {
			return Cone{}, err
		}
		all = append(all, name)
	}
	c := Cone{dirs: outermost(all)}
	if n := len(c.Patterns()); n > MaxText {
		return Cone{}, fmt.Errorf("the patterns of the directories have %d bytes: at most %d", n, MaxText)
	}
	return c, nil
}

// clean returns the name of a directory as git has it in an index.
func clean(dir string) (string, error) {
	bad := func(rule string) (string, error) {
		return "", fmt.Errorf("directory %.200q: %s", dir, rule)
	}
	name := strings.TrimSuffix(dir, "/")
	switch {
	case name == "":
		return bad("must name a directory below the top of the repository")
	case name[0] == '/':
		return bad("must be relative to the top of the repository")
	case len(name) > 4096:
		return bad("must have at most 4096 bytes")
	case strings.ContainsAny(name, "\x00\n\r"):
		return bad("must have no NUL byte and no end of line")
	case path.Clean(name) != name:
		return bad(`must have no ".", ".." or empty component`)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "." || part == ".." || strings.EqualFold(part, ".git") {
			return bad(`must have no component ".", ".." or ".git"`)
		}
	}
	return name, nil
}

// outermost sorts directories and leaves out those below another one.
func outermost(dirs []string) []string {
	have := make(map[string]bool, len(dirs))
	for _, dir := range dirs {
		have[dir] = true
	}
	out := slices.DeleteFunc(dirs, func(dir string) bool {
		return slices.ContainsFunc(parents(dir), func(above string) bool { return have[above] })
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// parents lists the directories above one, the outermost first, without the top.
func parents(dir string) (out []string) {
	for i, c := range dir {
		if c == '/' {
			out = append(out, dir[:i])
		}
	}
	return out
}

// Dirs returns the directories, sorted: none is below another.
func (c Cone) Dirs() []string { return slices.Clone(c.dirs) }

// Contains reports whether a worktree with the cone has the file at a path of the repository.
func (c Cone) Contains(file string) bool {
	at := path.Dir(file)
	if at == "." {
		return true
	}
	for _, dir := range c.dirs {
		// Files below it, and those directly in a directory above it.
		if at == dir || strings.HasPrefix(at, dir+"/") || strings.HasPrefix(dir, at+"/") {
			return true
		}
	}
	return false
}

// Patterns returns the text that git writes for the cone.
func (c Cone) Patterns() string {
	seen := map[string]bool{}
	var above []string
	for _, dir := range c.dirs {
		for _, p := range parents(dir) {
			if !seen[p] {
				seen[p] = true
				above = append(above, p)
			}
		}
	}
	// A directory comes before those in it, because the last pattern that matches counts.
	slices.Sort(above)
	var b strings.Builder
	b.WriteString("/*\n!/*/\n")
	for _, dir := range above {
		b.WriteString("/" + escape(dir) + "/\n!/" + escape(dir) + "/*/\n")
	}
	for _, dir := range c.dirs {
		b.WriteString("/" + escape(dir) + "/\n")
	}
	return b.String()
}

// special are the bytes that mean more than themselves in a pattern.
const special = `*?[\`

func escape(dir string) string {
	var b strings.Builder
	for i := range len(dir) {
		if strings.IndexByte(special, dir[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(dir[i])
	}
	return b.String()
}
