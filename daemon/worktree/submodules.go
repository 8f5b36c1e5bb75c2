package worktree

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
)

// SubmoduleNotice says that the directories of the target's submodules are empty in agents, and what fills them; "" if
// it has none. agent is the one that is told about; "NAME" for any.
func (w *Workspace) SubmoduleNotice(ctx context.Context, agent string) (string, error) {
	target, err := w.Target(ctx)
	if err != nil {
		return "", err
	}
	names, err := w.moduleNames(ctx, git.Branch(target))
	if err != nil || len(names) == 0 {
		return "", err
	}
	paths := slices.Sorted(maps.Keys(names))
	shown := make([]string, 0, 3)
	for _, p := range paths[:min(len(paths), 3)] {
		shown = append(shown, strconv.Quote(p))
	}
	more := ""
	if n := len(paths) - len(shown); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	first := paths[0]
	dir, address := shellWord(first), "submodule."+shellWord(names[first])+".url="
	return fmt.Sprintf("the project has %s (%s%s), whose directories are empty in agents: git submodule update --init in the agent fills them if its egress reaches their addresses; "+
		"without a network, in the project: git -C %s bundle create - HEAD --all | polisctl agents exec %s -- sh -c 'cat >~/sub.bundle && git -c protocol.file.allow=always -c %s$HOME/sub.bundle submodule update --init %s'",
		api.Count(len(paths), "submodule"), strings.Join(shown, ", "), more, dir, agent, address, dir), nil
}

// shellWord is a word within single quotes of a shell, if it can be one without quotes; a placeholder otherwise.
func shellWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-=") == "" {
		return s
	}
	return "DIR"
}
