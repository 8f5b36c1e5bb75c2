package worktree

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"

	"polis/daemon/git"
)

// Identity returns the author of the user's commits: what the project configures, else what the
// project's owner configures in home, "" if unknown. Agents get nothing else of the owner's git
// configuration. What neither configures is "".
func (p *Project) Identity(ctx context.Context, home string) (name, email string) {
	read := func(from ...string) {
		out, err := p.Run(ctx, append(append([]string{"config"}, from...), "-z", "--get-regexp", `^user\.(name|email)$`)...)
		if err != nil {
			return // it configures neither
		}
		found := map[string]string{}
		for _, pair := range git.SplitNUL(out) { // the last one counts, as for git
			if key, value, ok := strings.Cut(pair, "\n"); ok {
				found[key] = value
			}
		}
		name, email = cmp.Or(name, found["user.name"]), cmp.Or(email, found["user.email"])
	}
	read("--local")
	if (name == "" || email == "") && filepath.IsAbs(home) {
		read("--file", filepath.Join(home, ".gitconfig"))
	}
	return name, email
}
