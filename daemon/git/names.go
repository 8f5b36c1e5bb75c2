package git

import (
	"fmt"
	"strings"
)

// maxBranch is the longest branch name, in bytes. Loose refs are files, and a file name has at
// most 255 bytes including ".lock".
const maxBranch = 240

// CheckBranch checks that name can be the name of a branch: by the rules of
// git-check-ref-format(1), and so that git cannot take it for an option, a revision expression or
// another ref. The error wraps ErrBadName.
func CheckBranch(name string) error {
	bad := func(why string) error { return fmt.Errorf("branch %q: %s: %w", shorten(name), why, ErrBadName) }
	switch {
	case name == "":
		return bad("is empty")
	case len(name) > maxBranch:
		return bad(fmt.Sprintf("is longer than %d bytes", maxBranch))
	case name[0] == '-':
		return bad("begins with a dash")
	case name == "@" || name == "HEAD" || strings.HasSuffix(name, "_HEAD") && !strings.Contains(name, "/"):
		return bad("is a name git keeps for itself")
	case strings.HasPrefix(name, "refs/"):
		return bad("begins with refs/; give the name without refs/heads/")
	case isHex(name):
		return bad("looks like an object id")
	case strings.Contains(name, ".."):
		return bad("contains ..")
	case strings.Contains(name, "@{"):
		return bad("contains @{")
	case strings.HasSuffix(name, "."):
		return bad("ends with a dot")
	}
	for i := range len(name) {
		if c := name[i]; c < ' ' || c == 0x7f || strings.IndexByte(` ~^:?*[\`, c) >= 0 {
			return bad(fmt.Sprintf("contains %q", c))
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return bad("has an empty component")
		case part[0] == '.':
			return bad("has a component that begins with a dot")
		case strings.HasSuffix(part, ".lock"):
			return bad("has a component that ends with .lock")
		}
	}
	return nil
}

func isHex(s string) bool {
	return (len(s) == 40 || len(s) == 64) && IsOID(s)
}

// IsOID reports whether s is a full object id, SHA-1 or SHA-256.
func IsOID(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	return strings.Trim(s, "0123456789abcdef") == ""
}

func shorten(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}

// Branch returns the full name of a branch's ref.
func Branch(name string) string { return "refs/heads/" + name }

// Opened returns the names of the files that git opens in every directory of a worktree, whatever
// their type. Opening a FIFO of such a name blocks.
func Opened() []string { return []string{".gitignore", ".gitattributes", ".gitmodules", ".mailmap"} }
