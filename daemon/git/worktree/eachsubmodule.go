package worktree

import (
	"context"
	"maps"
	"os"
	"path"
	"slices"

	"polis/daemon/git"
)

// each calls do for the submodules below a directory, whose repository is module; both are "" for the worktree itself. names are
// their names by their paths, links their commits. A directory for which do fails stays empty; why is logged.
func (n *nestedReader) each(ctx context.Context, dir, module string, names, links map[string]string, depth int,
	do func(ctx context.Context, dir, module, commit string, depth int) error) {
	for _, name := range slices.Sorted(maps.Keys(links)) {
		if n.seen++; n.seen > maxNested || depth > maxNestedDepth || names[name] == "" {
			continue
		}
		inner := names[name]
		if module != "" {
			inner = path.Join(module, nestedModules, inner)
		}
		if err := do(ctx, path.Join(dir, name), inner, links[name], depth); err != nil {
			n.w.cfg.Log.Info("directory of a submodule stays empty", "agent", n.agent, "op", "submodules", "path", path.Join(dir, name), "err", err)
		}
	}
}

// submodulesOf returns the names and the commits of a commit's submodules, by their paths. index is where its index is.
func submodulesOf(ctx context.Context, r git.Repo, index *os.Root, commit string) (names, links map[string]string, err error) {
	text, _, err := indexBytes(index)
	if err != nil {
		return nil, nil, err
	}
	x, err := parseIndex(text)
	if err != nil || len(x.Gitlinks()) == 0 {
		return nil, nil, err
	}
	names, err = moduleNames(ctx, r, commit)
	return names, x.Gitlinks(), err
}
