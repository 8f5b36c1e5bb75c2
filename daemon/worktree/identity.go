package worktree

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"

	"polis/daemon/git"
)

// Setting is one entry of a git configuration.
type Setting struct{ Key, Value string }

// Settings returns what agents get of the project's own configuration, in its order: the author of
// the user's commits and the URLs of remotes. It starts git once.
func (p *Project) Settings(ctx context.Context) ([]Setting, error) {
	return p.settings(ctx, `^(user\.(name|email)|remote\..*\.url)$`, "--local")
}

// settings reads the entries whose keys match; none is not an error.
func (p *Project) settings(ctx context.Context, keys string, from ...string) ([]Setting, error) {
	out, err := p.Run(ctx, append(append([]string{"config"}, from...), "-z", "--get-regexp", keys)...)
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

// Identity returns the author of the user's commits: what the project configures, which Settings
// returned, else what the project's owner configures in home, "" if unknown. Agents get nothing else
// of the owner's git configuration. What neither configures is "".
func (p *Project) Identity(ctx context.Context, local []Setting, home string) (name, email string) {
	read := func(list []Setting) {
		found := map[string]string{}
		for _, s := range list { // the last one counts, as for git
			found[s.Key] = s.Value
		}
		name, email = cmp.Or(name, found["user.name"]), cmp.Or(email, found["user.email"])
	}
	read(local)
	if (name == "" || email == "") && filepath.IsAbs(home) {
		if list, err := p.settings(ctx, `^user\.(name|email)$`, "--file", filepath.Join(home, ".gitconfig")); err == nil { // else it configures neither
			read(list)
		}
	}
	return name, email
}
