package remote

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/worktree"
	"polis/fusefs/fdtree"
)

// fillTimeout bounds the helpers of the owner: a prompt would not be answered.
const fillTimeout = 30 * time.Second

// access is what a git needs to reach a remote.
type access struct {
	config, env []string
	secrets     []string
	global      string
}

// helper returns what the environment has. git calls it only for the host it is configured for.
const helper = `!f() { test "$1" != get || printf 'username=%s\npassword=%s\n' "$POLIS_GIT_USER" "$POLIS_GIT_PASSWORD"; }; f`

// reach finds out how to reach a remote, and returns the end of what it made.
func (b *Broker) reach(ctx context.Context, p *worktree.Project, r Remote) (access, func(), error) {
	done := func() {}
	uid := b.Workspace.Bare().Runner.UID
	if isPath(r.full) || strings.HasPrefix(r.full, "file://") {
		// Who serves a path is a git of its own, which looks for the permission to
		// read another's repository only in a file.
		dir, err := os.MkdirTemp("", "polis-remote-")
		if err != nil {
			return access{}, done, err
		}
		done = func() { _ = fdtree.Cleanup(dir) } //nolint:errcheck // a temporary file of ours
		a := access{config: []string{"remote.polis.url=" + r.full}, global: filepath.Join(dir, "config")}
		path := strings.TrimPrefix(r.full, "file://")
		text := "[safe]\n\tdirectory = " + quote(path) + "\n\tdirectory = " + quote(filepath.Join(path, ".git")) + "\n"
		if err := os.WriteFile(a.global, []byte(text), 0o600); err != nil {
			return access{}, done, err
		}
		// Git runs as that user, and nobody else reads which projects there are.
		return a, done, errors.Join(os.Lchown(a.global, int(uid), -1), os.Lchown(dir, int(uid), -1))
	}
	u, err := url.Parse(r.full)
	web := err == nil && (u.Scheme == "http" || u.Scheme == "https")
	if !web {
		if uid != p.Owner.UID {
			return access{}, done, api.Errorf(api.CodeForbidden, "remote %s is reached by ssh with the keys of uid %d, and polis runs git here as uid %d", r.Name, p.Owner.UID, uid).
				WithHint("an https remote works, or a project that does not belong to root")
		}
		a := access{config: []string{"remote.polis.url=" + r.full}, env: []string{"HOME=" + b.Home(uid)}}
		return a, done, b.owners(ctx, p, &a, `^(core\.sshcommand|ssh\.variant)$`)
	}
	a := access{config: []string{"remote.polis.url=" + r.URL}}
	if err := b.owners(ctx, p, &a, `^http\.`); err != nil {
		return access{}, done, err
	}
	name, password := u.User.Username(), ""
	if u.User != nil {
		password, _ = u.User.Password()
	}
	if password == "" {
		name, password = b.fill(ctx, p, u)
	}
	if password != "" {
		a.config = append(a.config, "credential."+u.Scheme+"://"+u.Host+".helper="+helper)
		a.env = []string{"POLIS_GIT_USER=" + name, "POLIS_GIT_PASSWORD=" + password}
		a.secrets = append(a.secrets, password, url.QueryEscape(password))
	}
	return a, done, nil
}

// owners adds what the owner of the project has configured there to reach remotes, also in files that are included under a
// condition on the project. It is read as the owner, and used only if git runs as that user: commands of it run then.
func (b *Broker) owners(ctx context.Context, p *worktree.Project, a *access, pattern string) error {
	if b.Workspace.Bare().Runner.UID != p.Owner.UID {
		return nil
	}
	home := b.Home(p.Owner.UID)
	list, err := p.OwnersSettings(ctx, home, pattern)
	if err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "%w", err)
	}
	for _, s := range list {
		value := s.Value
		if s.Bare {
			value = "true"
		}
		switch rest, ok := strings.CutPrefix(value, "~/"); {
		case ok && strings.HasPrefix(s.Key, "http.") && filepath.IsAbs(home): // git has no home there
			value = filepath.Join(home, rest)
		case strings.HasSuffix(s.Key, ".extraheader"), strings.HasSuffix(s.Key, ".proxy"):
			a.secrets = append(a.secrets, value)
		}
		a.config = append(a.config, s.Key+"="+value)
	}
	return nil
}

// fill queries the helpers that the project's owner has configured. Without an answer the remote
// is used without credentials.
func (b *Broker) fill(ctx context.Context, p *worktree.Project, u *url.URL) (name, password string) {
	in := fmt.Sprintf("protocol=%s\nhost=%s\npath=%s\n", u.Scheme, u.Host, strings.TrimPrefix(u.Path, "/"))
	if n := u.User.Username(); n != "" {
		in += "username=" + n + "\n"
	}
	c := git.Cmd{Args: []string{"credential", "fill"}, Stdin: strings.NewReader(in + "\n"), Timeout: fillTimeout, Helpers: true, Remote: true}
	if home := b.Home(p.Owner.UID); filepath.IsAbs(home) {
		c.Env = []string{"HOME=" + home}
		c.Global = filepath.Join(home, ".gitconfig")
	}
	out, err := p.Do(ctx, c)
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		switch key {
		case "username":
			name = value
		case "password":
			password = value
		}
	}
	return name, password
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
