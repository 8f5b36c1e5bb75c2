package worktree

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/nested"
	"polis/internal/asuser"
)

// SubmoduleNotice says that the directories of the target's submodules are empty in an agent, and what fills them; "" if
// none is. Without an agent, it is about those of which the project has no repository. withheld: the agent's rules withhold
// files, and so it gets no submodule.
func (w *Workspace) SubmoduleNotice(ctx context.Context, agent string, withheld bool) (string, error) {
	target, err := w.Target(ctx)
	if err != nil {
		return "", err
	}
	names, err := moduleNames(ctx, w.Bare(), git.Branch(target))
	if err != nil || len(names) == 0 {
		return "", err
	}
	if agent != "" {
		err = w.keepEmpty(agent, names)
	} else {
		err = w.keepMissing(ctx, names)
	}
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
		more = fmt.Sprintf(" and %d more; git submodule status lists all", n)
	}
	text := fmt.Sprintf("the project has %s (%s%s) whose directories are empty in ", api.Count(len(paths), "submodule"), strings.Join(shown, ", "), more)
	const brings = ": git submodule update --init --recursive in the project brings them to agents that start after it; "
	if agent == "" {
		return text + "agents, because the project has no repositories of them" + brings + "in an agent, git submodule update --init does, if its egress reaches their addresses", nil
	}
	if withheld {
		return text + "agent " + agent + ", because its rules withhold files, and these can be in a submodule too; in the agent, git submodule update --init fills them, if its egress reaches their addresses", nil
	}
	return text + "agent " + agent + brings + "in the agent, git submodule update --init does, if its egress reaches their addresses", nil
}

// keepEmpty leaves the submodules whose directories are empty in an agent.
func (w *Workspace) keepEmpty(agent string, names map[string]string) error {
	root, err := w.lower(agent, View{})
	if err != nil {
		return err
	}
	defer root.Close()
	maps.DeleteFunc(names, func(at, _ string) bool {
		p, err := nested.PlaceOf(root, at, path.Join(parts, agent))
		return err != nil || !p.Empty()
	})
	return nil
}

// keepMissing leaves the submodules of which the project has no repository that agents can borrow from.
func (w *Workspace) keepMissing(ctx context.Context, names map[string]string) error {
	p, err := w.Project(ctx)
	if err != nil || p == nil {
		return err
	}
	maps.DeleteFunc(names, func(_, module string) bool {
		return p.module(module, func(dir *os.File) error {
			_, err := nested.Borrowable(dir)
			return err
		}) == nil
	})
	return nil
}

// module calls read with the git directory of a submodule of the project, with the rights of the project's owner.
func (p *Project) module(name string, read func(dir *os.File) error) error {
	return asuser.Do(p.Owner.UID, p.Owner.GID, func() error {
		fd, err := unix.Open(p.Dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: p.Dir, Err: err}
		}
		top := os.NewFile(uintptr(fd), p.Dir)
		defer top.Close()
		dir, err := nested.OpenDir(top, path.Join("modules", name))
		if err != nil {
			return err
		}
		defer dir.Close()
		return read(dir)
	})
}
