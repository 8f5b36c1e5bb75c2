package githooks

import (
	"fmt"
	"strings"

	"polis/daemon/api/wire"
)

// Notice reports that hooks of the project do not run; "" if all of them run, or there are none.
func Notice(h *wire.GitHooks) string {
	switch {
	case h == nil || h.Runs():
		return ""
	case h.Place == wire.HooksOutside:
		return fmt.Sprintf("git hooks in %s (%s) do not run for agents and merges: they are not in the project; merge.check runs a command on the result of each merge", h.Dir, strings.Join(h.Names, ", "))
	}
	dir := ".git/hooks"
	if h.Place == wire.HooksInTree {
		dir = h.Dir
	}
	return fmt.Sprintf(`git hooks in %s (%s) do not run for agents and merges; [git] hooks = "run" in polisd.toml (sudo polisctl config set git.hooks run) runs them in the agents' sandboxes, and merge.check runs a command on the result of each merge`, dir, strings.Join(h.Names, ", "))
}

// SignNotice reports that the commits of agents and merges are not signed, though the owner's are; "" if that is
// not so, or merges wait for a signature.
func SignNotice(s Settings, required bool) string {
	if !s.Signs || required {
		return ""
	}
	return "your commits are signed (commit.gpgSign), and those of agents and merges are not; polisctl merge NAME --sign signs a merge with your key, and [merge] sign = true in polisd.toml (sudo polisctl config set merge.sign true) has every merge wait for that"
}
