package worktree

import (
	"bytes"
	"context"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
)

// partial returns an error if objects of the project are only at a remote. A partial clone stays
// one in its configuration when all its objects have been fetched, so they are counted.
func (p *Project) partial(ctx context.Context) error {
	remote := p.setting(ctx, "--get", "extensions.partialClone")
	if remote == "" { // newer versions of git write another setting
		key, _, _ := strings.Cut(p.setting(ctx, "--name-only", "--get-regexp", `^remote\..*\.promisor$`, "^true$"), "\n")
		remote = strings.TrimSuffix(strings.TrimPrefix(key, "remote."), ".promisor")
	}
	if remote == "" {
		return nil
	}
	var missing missingObjects
	_, err := p.Do(ctx, git.Cmd{Args: []string{"rev-list", "--objects", "--missing=print", "--branches", "--tags"}, Stdout: &missing, Timeout: checkoutTimeout})
	if err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "find out which objects of the partial clone %s are missing: %w", p.Path, err)
	}
	if missing.n == 0 {
		return nil
	}
	return api.Errorf(api.CodeWorkspaceInvalid, "%s is a partial clone: it lacks %s, which the remote %s has", p.Path, api.Count(missing.n, "object"), remote).
		WithHint("git -C %s fetch --refetch --no-filter %s makes it complete", p.Path, remote)
}

// setting reads the project's configuration, empty if it has no such setting.
func (p *Project) setting(ctx context.Context, args ...string) string {
	out, err := p.Line(ctx, append([]string{"config"}, args...)...)
	if err != nil {
		return ""
	}
	return out
}

// missingObjects counts the lines that begin with '?': git-rev-list(1) prints them for missing
// objects.
type missingObjects struct {
	n    int
	rest bool // the last write ended within a line
}

func (m *missingObjects) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if !m.rest && b[0] == '?' {
		m.n++
	}
	m.n += bytes.Count(b, []byte("\n?"))
	m.rest = b[len(b)-1] != '\n'
	return len(b), nil
}
