package githooks

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"polis/daemon/git"
)

// Settings are what the owner of a project configured for the owner's git.
type Settings struct {
	// HooksPath is core.hooksPath as it is configured, with the home directory in place of "~"; "" if it is not.
	HooksPath string
	// Signs: the owner's commits are signed (commit.gpgSign).
	Signs bool
}

// Owners is a project's git that reads what its owner has configured.
type Owners interface {
	Owners(ctx context.Context, home string, args ...string) ([]byte, error)
}

// ReadSettings reads the settings, of the system, of the owner, and of the project. home is the home directory of the
// owner; "" if it is not known.
func ReadSettings(ctx context.Context, o Owners, home string) (Settings, error) {
	out, err := o.Owners(ctx, home, "config", "-z", "--show-scope", "--get-regexp", `^(commit\.gpgsign|core\.hookspath)$`)
	if code, ok := git.ExitCode(err); err != nil && (!ok || code != 1) { // 1: neither is set
		return Settings{}, fmt.Errorf("read the git configuration of the project's owner: %w", err)
	}
	return parseSettings(git.SplitNUL(out), home), nil
}

// parseSettings reads pairs of a scope and an entry. The last entry of a key counts.
func parseSettings(fields []string, home string) (s Settings) {
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "command" { // polis' own
			continue
		}
		key, value, given := strings.Cut(fields[i+1], "\n")
		switch key {
		case "commit.gpgsign":
			s.Signs = !given || isTrue(value)
		case "core.hookspath":
			s.HooksPath = value
		}
	}
	if rest, ok := strings.CutPrefix(s.HooksPath, "~/"); ok {
		s.HooksPath = filepath.Join("/", home, rest)
	}
	return s
}

// isTrue reads a boolean of git-config(1). Any number but 0 is true.
func isTrue(value string) bool {
	switch strings.ToLower(value) {
	case "", "false", "no", "off":
		return false
	}
	return strings.Trim(value, "0") != ""
}
