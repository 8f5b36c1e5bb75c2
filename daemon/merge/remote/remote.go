package remote

import (
	"context"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/worktree"
)

// timeout bounds one exchange with a remote.
const timeout = 30 * time.Minute

// Broker works on the remotes of one workspace.
type Broker struct {
	Workspace *worktree.Workspace
	// Home is the home directory of a user; "" if there is none.
	Home func(uid uint32) string

	once sync.Once
	turn chan struct{}
}

// Remote is one remote of the project.
type Remote struct {
	Name string
	// URL is for people and agents: without user name and password.
	URL  string
	full string
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)

// List returns the remotes the project has, by name. One whose name cannot be
// part of a ref is left out.
func List(ctx context.Context, p *worktree.Project) ([]Remote, error) {
	settings, err := p.Settings(ctx)
	if err != nil {
		return nil, err
	}
	return Of(p, settings), nil
}

// Of is List for what the project's Settings returned.
func Of(p *worktree.Project, settings []worktree.Setting) []Remote {
	var list []Remote
	for _, s := range settings {
		key, is := strings.CutPrefix(s.Key, "remote.")
		if !is {
			continue
		}
		name, full := strings.TrimSuffix(key, ".url"), s.Value
		known := func(r Remote) bool { return r.Name == name }
		if !goodName.MatchString(name) || git.CheckBranch(name) != nil || full == "" || strings.ContainsAny(full, "\n\r\x00") || slices.ContainsFunc(list, known) {
			continue
		}
		if isPath(full) && !filepath.IsAbs(full) {
			full = filepath.Join(p.Path, full)
		}
		list = append(list, Remote{Name: name, URL: clean(full), full: full})
	}
	slices.SortFunc(list, func(a, b Remote) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// isPath reports whether git takes a remote's address as a path of this machine.
func isPath(s string) bool {
	if strings.Contains(s, "://") {
		return false
	}
	colon, slash := strings.IndexByte(s, ':'), strings.IndexByte(s, '/')
	return colon < 0 || slash >= 0 && slash < colon
}

// clean takes name and password out of a URL.
func clean(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	u, err := url.Parse(s)
	if err != nil {
		return "(not a URL)"
	}
	if u.Scheme == "ssh" { // the name is part of the address there
		if u.User != nil {
			u.User = url.User(u.User.Username())
		}
		return u.String()
	}
	u.User = nil
	return u.String()
}

// one waits for this workspace's turn and finds the remote.
func (b *Broker) one(ctx context.Context, name string) (*worktree.Project, Remote, func(), error) {
	b.once.Do(func() { b.turn = make(chan struct{}, 1) })
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, Remote{}, nil, api.Errorf(api.CodeTimeout, "wait for other exchanges with remotes: %w", context.Cause(ctx))
	}
	done := func() { <-b.turn }
	p, r, err := b.find(ctx, name)
	if err != nil {
		done()
		return nil, Remote{}, nil, err
	}
	return p, r, done, nil
}

// find finds the remote in the project's configuration.
func (b *Broker) find(ctx context.Context, name string) (*worktree.Project, Remote, error) {
	p, err := b.Workspace.Project(ctx)
	if err != nil {
		return nil, Remote{}, err
	}
	if p == nil {
		return nil, Remote{}, api.Errorf(api.CodeBadState, "the project is not a git repository: it has no remotes")
	}
	list, err := List(ctx, p)
	if err != nil {
		return nil, Remote{}, api.Errorf(api.CodeWorkspaceInvalid, "read the project's remotes: %w", err)
	}
	for _, r := range list {
		if r.Name == name {
			return p, r, nil
		}
	}
	return nil, Remote{}, api.Errorf(api.CodeNotFound, "the project has no remote %q", api.Shorten(name, 64)).
		WithHint("git -C %s remote -v lists them; a new one is known to agents from their next start", p.Path)
}

// URL returns the address of the remote called name, without user name and password.
func (b *Broker) URL(ctx context.Context, name string) (string, error) {
	_, r, err := b.find(ctx, name)
	return r.URL, err
}
