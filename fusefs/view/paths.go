package view

import "strings"

// isGitFile reports whether path is the worktree's .git, or below it.
func (g *Guard) isGitFile(path string) bool {
	return g.cfg.GitFile && (path == ".git" || strings.HasPrefix(path, ".git/"))
}

// clean reports whether path is relative and in its canonical form. The file system passes no
// other path; a guard that relied on that would fail open.
func clean(path string) bool {
	if path == "" {
		return true
	}
	if strings.IndexByte(path, 0) >= 0 {
		return false
	}
	for rest, more := path, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	return true
}
