package worktree

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"polis/daemon/git"
	"polis/daemon/host/cage"
)

// Setting is one entry of a git configuration.
type Setting struct{ Key, Value string }

// Settings returns the URLs of remotes in the project's own configuration, in its order. It starts git once.
func (p *Project) Settings(ctx context.Context) ([]Setting, error) {
	out, err := p.Run(ctx, "config", "--local", "-z", "--get-regexp", `^remote\..*\.url$`)
	if code, ok := git.ExitCode(err); ok && code == 1 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Setting
	for _, pair := range git.SplitNUL(out) {
		key, value, _ := strings.Cut(pair, "\n")
		list = append(list, Setting{key, value})
	}
	return list, nil
}

// Bounds of a command that reads the owner's configuration, which can include any file.
const (
	ownersTime = 10 * time.Second
	ownersData = 256 << 20 // bytes
)

// owners is a command of Project.Owners. Without a home it reads the configuration of the system and the project.
func owners(home string, args ...string) git.Cmd {
	cmd := git.Cmd{Args: args, Timeout: ownersTime, Limits: &cage.Limits{Data: ownersData, CPU: ownersTime}, Home: home}
	if !filepath.IsAbs(home) {
		cmd.Home = "/nonexistent"
	}
	return cmd
}

// OwnersGit is what the git of a project's owner has configured there.
type OwnersGit struct {
	p       *Project
	home    string
	last    map[string]configured // the last value counts, as for git
	remotes []Setting
}

// configured is a value, with the file that it is from.
type configured struct{ value, file string }

// OwnersGit reads what the git of the project's owner has configured there, as far as agents get something of it. home is
// that of the owner. It starts git once.
func (p *Project) OwnersGit(ctx context.Context, home string) (*OwnersGit, error) {
	o := &OwnersGit{p: p, home: home, last: map[string]configured{}}
	list, err := p.OwnersSettings(ctx, home, `^(remote\..*\.url|core\.excludesfile|(user|author|committer)\.(name|email))$`)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if !strings.HasPrefix(s.Key, "remote.") {
			o.last[s.Key] = configured{s.Value, s.File}
		} else if s.Scope == "local" {
			o.remotes = append(o.remotes, s.Setting)
		}
	}
	return o, nil
}

// OwnersSetting is an entry of what the git of a project's owner reads there.
type OwnersSetting struct {
	Setting
	// Scope is "system", "global", "local" or "worktree", File the file of the entry, as git names it.
	Scope, File string
	// Bare: the entry has no value, which is true for git.
	Bare bool
}

// OwnersSettings returns the entries of the owner's configuration, with this home, whose keys match pattern (see git-config(1),
// --get-regexp), in git's order: the last one of a key counts. Those that polis gives its own git are not among them.
func (p *Project) OwnersSettings(ctx context.Context, home, pattern string) ([]OwnersSetting, error) {
	out, err := p.Owners(ctx, home, "config", "-z", "--show-scope", "--show-origin", "--get-regexp", pattern)
	if code, ok := git.ExitCode(err); ok && code == 1 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration of the project's owner: %w", err)
	}
	f := git.SplitNUL(out)
	if len(f)%3 != 0 {
		return nil, fmt.Errorf("read the configuration of the project's owner: git config: %d fields", len(f))
	}
	var list []OwnersSetting
	for i := 0; i < len(f); i += 3 {
		if f[i] == "command" {
			continue
		}
		key, value, given := strings.Cut(f[i+2], "\n")
		file, _ := strings.CutPrefix(f[i+1], "file:")
		list = append(list, OwnersSetting{Setting: Setting{key, value}, Scope: f[i], File: file, Bare: !given})
	}
	return list, nil
}

// Remotes returns the URLs of remotes in the project's own configuration, in its order.
func (o *OwnersGit) Remotes() []Setting { return o.remotes }
