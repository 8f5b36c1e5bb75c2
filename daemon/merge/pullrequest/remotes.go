package pullrequest

import (
	"context"
	"path/filepath"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
)

// remotes finds where to push to, as git push in the project would.
func (p *pull) remotes(ctx context.Context, kind Kind) error {
	name, err := p.chosen(ctx)
	if err != nil {
		return err
	}
	p.remote = name
	if p.push.URL, err = p.url(ctx, name, "--push"); err != nil {
		return err
	}
	p.from = ParseRemote(p.push.URL)
	p.into = p.from
	if p.req.Into != "" {
		u, err := p.url(ctx, p.req.Into)
		if err != nil {
			return err
		}
		p.into = ParseRemote(u)
	}
	if kind != Unknown {
		p.from.Kind, p.into.Kind = kind, kind
	}
	return p.reach(ctx)
}

// reach finds how the checkout reaches remotes: by the project's own configuration, and by what the owner's includes under a
// condition that holds there, as includeIf "gitdir:". The rest of the owner's counts anyway, unless it stands after one of those.
func (p *pull) reach(ctx context.Context) error {
	const pattern = `^(http|credential|core\.sshcommand|ssh\.variant)(\.|$)`
	list, err := p.project.OwnersSettings(ctx, p.ownOfProject().Home, pattern)
	if err != nil {
		return api.Errorf(api.CodeInternal, "%w", err)
	}
	out, err := p.push.Repo.Do(ctx, git.Cmd{Args: []string{"config", "--null", "--get-regexp", pattern}, Own: p.own})
	if _, none := git.ExitCode(err); err != nil && !none {
		return api.Errorf(api.CodeInternal, "read the owner's configuration: %w", err)
	}
	anyway, passed := map[string]int{}, map[string]bool{}
	for _, entry := range git.SplitNUL(out) {
		anyway[entry]++
	}
	for _, s := range list {
		entry := s.Key + "\n" + s.Value
		if s.Bare {
			entry = s.Key
		}
		if s.Scope != "local" && s.Scope != "worktree" && anyway[entry] > 0 {
			anyway[entry]--
			if !passed[s.Key] || hasAll(s.Key) {
				continue
			}
		}
		passed[s.Key] = true
		if s.Bare {
			s.Value = "true"
		}
		p.push.Config = append(p.push.Config, s.Key+"="+s.Value)
	}
	return nil
}

// hasAll reports whether all values of a key count, not the last one (git-config(1)).
func hasAll(key string) bool {
	return strings.HasSuffix(key, ".extraheader") || strings.HasSuffix(key, ".helper")
}

// ask runs git in the project as its owner would.
func (p *pull) ask(ctx context.Context, args ...string) (string, error) {
	out, err := p.project.Do(ctx, git.Cmd{Args: args, Own: p.ownOfProject(), Config: []string{"safe.directory=" + p.project.Path}})
	return strings.TrimSuffix(string(out), "\n"), err
}

// ownOfProject is the owner even if that is root: the project is only read.
func (p *pull) ownOfProject() *git.Own {
	if p.project.Owner.UID != p.own.UID {
		return &git.Own{UID: p.project.Owner.UID, Home: "/nonexistent"}
	}
	return p.own
}

func (p *pull) url(ctx context.Context, name string, flags ...string) (string, error) {
	u, err := p.ask(ctx, append(append([]string{"remote", "get-url"}, flags...), "--", name)...)
	if err != nil || u == "" {
		return "", api.Errorf(api.CodeNotFound, "the project has no remote %q", api.Shorten(name, 64)).
			WithHint("git -C %s remote -v lists them", p.project.Path)
	}
	if first, _, more := strings.Cut(u, "\n"); more {
		u = first
	}
	// A path is relative to the project, not to where git runs.
	if !strings.Contains(u, ":") && !filepath.IsAbs(u) {
		u = filepath.Join(p.project.Path, u)
	}
	if strings.HasPrefix(u, "-") {
		return "", api.Errorf(api.CodeBadRequest, "the URL of remote %s begins with a dash", name)
	}
	return u, nil
}

// chosen is the remote that git push in the project would choose for the target.
func (p *pull) chosen(ctx context.Context) (string, error) {
	if p.req.Remote != "" {
		return p.req.Remote, nil
	}
	for _, key := range []string{"branch." + p.Target + ".pushRemote", "remote.pushDefault", "branch." + p.Target + ".remote"} {
		if v, err := p.ask(ctx, "config", "--get", key); err == nil && v != "" && v != "." {
			return v, nil
		}
	}
	out, err := p.ask(ctx, "remote")
	if err != nil {
		return "", api.Errorf(api.CodeInternal, "list the project's remotes: %w", err)
	}
	names := strings.Fields(out)
	for _, n := range names {
		if n == "origin" || len(names) == 1 {
			return n, nil
		}
	}
	if len(names) == 0 {
		return "", api.Errorf(api.CodeBadState, "the project has no remote to push to").WithHint("git -C %s remote add origin URL", p.project.Path)
	}
	return "", api.Errorf(api.CodeBadRequest, "the project has %d remotes: say which one", len(names)).With("remotes", names).WithHint("--remote %s", names[0])
}
