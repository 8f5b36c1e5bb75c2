package worktree

import (
	"context"
	"path/filepath"
)

// Identity returns the author of the user's commits: what the project configures, else what the
// project's owner configures in home, "" if unknown. Agents get nothing else of the owner's git
// configuration. What neither configures is "".
func (p *Project) Identity(ctx context.Context, home string) (name, email string) {
	from := [][]string{{"--local"}}
	if filepath.IsAbs(home) {
		from = append(from, []string{"--file", filepath.Join(home, ".gitconfig")})
	}
	get := func(key string) string {
		for _, f := range from {
			if v, err := p.Line(ctx, append(append([]string{"config"}, f...), "--get", key)...); err == nil && v != "" {
				return v
			}
		}
		return ""
	}
	return get("user.name"), get("user.email")
}
