package filtered

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"polis/daemon/git"
)

// ErrWithheld reports that a commit has a file that its author cannot have read.
var ErrWithheld = errors.New("the agent's rules withhold it")

// Judge distinguishes what an agent can have made from what it can only have named.
type Judge struct {
	// Shared is the shared repository.
	Shared git.Repo
	// Own is the directory of objects that only the agent has; Filtered that of a store.
	Own, Filtered string
	// Saved is for work from the trash: what was on its branch is in the shared
	// repository only, so that a file that the store does not know is taken for the agent's.
	Saved bool
}

// allowSaved is Judge.Allowed for saved work, whose objects are in own, and the store of an agent.
func (k *Keeper) allowSaved(ctx context.Context, key, own string, revs ...string) error {
	return Judge{Shared: k.Repo, Own: own, Filtered: k.Objects(key), Saved: true}.Allowed(ctx, revs...)
}

// maxElsewhere bounds the files that an agent did not have, of one publication. Few
// trees can have more paths than can be counted.
const maxElsewhere = 100_000

// Allowed refuses commits that have a withheld file where nobody else had it:
// trees show the ids of all files, and with one an agent could give the file a path that it may
// read. What commits introduce must be the agent's own, or what it can read, or
// be withheld at that very path already, as in a merge.
func (j Judge) Allowed(ctx context.Context, revs ...string) error {
	walk := revs
	if !slices.ContainsFunc(revs, func(s string) bool { return strings.HasPrefix(s, "^") }) {
		refs, err := j.Shared.Refs(ctx)
		if err != nil {
			return err
		}
		there, err := j.Shared.Present(ctx, slices.Compact(slices.Sorted(maps.Values(refs))))
		if err != nil {
			return err
		}
		walk = slices.Clone(revs)
		for _, id := range there {
			walk = append(walk, "^"+id)
		}
	}
	with := j.Shared.Own(j.Own)
	each := func(do func(path, id string) error) error {
		if err := named(ctx, with, revs, do); err != nil {
			return err
		}
		return with.Introduced(ctx, walk, do)
	}
	ids := map[string]bool{}
	if err := each(func(_, id string) error { ids[id] = true; return nil }); err != nil {
		return err
	}
	if err := j.unknown(ctx, ids); err != nil || len(ids) == 0 {
		return err
	}
	at, err := WithheldAt(j.Filtered, slices.Collect(maps.Keys(ids)))
	if err != nil {
		return err
	}
	if j.Saved {
		maps.DeleteFunc(ids, func(id string, _ bool) bool { return len(at[id]) == 0 })
	}
	n := 0
	return each(func(path, id string) error {
		if n++; ids[id] && (n > maxElsewhere || !slices.Contains(at[id], path)) {
			return fmt.Errorf("%q is the file %s: %w", path, id, ErrWithheld)
		}
		return nil
	})
}

// named hands out the files of revs that are no commits: of tags that lead to a tree or a file.
func named(ctx context.Context, with git.Repo, revs []string, each func(path, id string) error) error {
	var ask strings.Builder
	for _, r := range revs {
		if id, _, _ := strings.Cut(r, "^"); git.IsOID(id) {
			fmt.Fprintf(&ask, "%s^{}\n", id)
		}
	}
	var trees, files []string
	err := with.Lines(ctx, git.Cmd{Args: []string{"cat-file", "--batch-check=%(objecttype) %(objectname)"}, Stdin: strings.NewReader(ask.String())}, func(line string) {
		switch typ, id, _ := strings.Cut(line, " "); typ {
		case "blob":
			files = append(files, id)
		case "tree":
			trees = append(trees, id)
		}
	})
	for _, id := range files {
		if err == nil {
			err = each("", id)
		}
	}
	for _, t := range trees {
		if err == nil {
			err = with.Files(ctx, t, each)
		}
	}
	return err
}

// unknown takes away those of ids that the agent has or may read.
func (j Judge) unknown(ctx context.Context, ids map[string]bool) error {
	there, err := git.Repo{Runner: j.Shared.Runner, Dir: j.Shared.Dir, Objects: j.Filtered}.Present(ctx, slices.Collect(maps.Keys(ids)))
	if err != nil {
		return err
	}
	for _, id := range there {
		delete(ids, id)
	}
	own, err := git.Holds(j.Own, slices.Collect(maps.Keys(ids)))
	for id := range own {
		delete(ids, id)
	}
	return err
}
