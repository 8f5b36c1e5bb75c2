package shim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"polis/daemon/filtered"
	"polis/daemon/git"
)

// errWithheld says that an agent names a file in a commit that it cannot have read.
var errWithheld = errors.New("the agent's rules withhold it")

// allowed refuses commits that have a withheld file where nobody else had it:
// trees show the ids of all files, and with one an agent could give the file a path that it may
// read. What commits introduce must be the agent's own, or what it can read, or
// be withheld at that very path already, as in a merge.
func (p *packs) allowed(ctx context.Context, revs []string) error {
	files := map[string][]string{} // paths by id
	add := func(path, id string) {
		if !slices.Contains(files[id], path) {
			files[id] = append(files[id], path)
		}
	}
	with := p.bare.Own(p.own)
	if err := p.named(ctx, with, revs, add); err != nil {
		return err
	}
	walk := revs
	if !slices.ContainsFunc(revs, func(s string) bool { return strings.HasPrefix(s, "^") }) {
		refs, err := p.bare.Refs(ctx)
		if err != nil {
			return err
		}
		there, err := p.bare.Present(ctx, slices.Compact(slices.Sorted(maps.Values(refs))))
		if err != nil {
			return err
		}
		walk = slices.Clone(revs)
		for _, id := range there {
			walk = append(walk, "^"+id)
		}
	}
	if err := with.Introduced(ctx, walk, add); err != nil {
		return err
	}
	return p.known(ctx, files)
}

// named adds the files of revs that are no commits: of tags that lead to a tree or a file.
func (p *packs) named(ctx context.Context, with git.Repo, revs []string, add func(path, id string)) error {
	var ask strings.Builder
	for _, r := range revs {
		if id, _, _ := strings.Cut(r, "^"); git.IsOID(id) {
			fmt.Fprintf(&ask, "%s^{}\n", id)
		}
	}
	var trees []string
	err := with.Lines(ctx, git.Cmd{Args: []string{"cat-file", "--batch-check=%(objecttype) %(objectname)"}, Stdin: strings.NewReader(ask.String())}, func(line string) {
		switch typ, id, _ := strings.Cut(line, " "); typ {
		case "blob":
			add("", id)
		case "tree":
			trees = append(trees, id)
		}
	})
	if err != nil {
		return err
	}
	for _, t := range trees {
		if err := with.Files(ctx, t, add); err != nil {
			return err
		}
	}
	return nil
}

// known refuses files that the agent neither has nor may have where they are.
func (p *packs) known(ctx context.Context, files map[string][]string) error {
	drop := func(ids []string) {
		for _, id := range ids {
			delete(files, id)
		}
	}
	there, err := git.Repo{Runner: p.bare.Runner, Dir: p.bare.Dir, Objects: p.filtered}.Present(ctx, slices.Collect(maps.Keys(files)))
	if err != nil {
		return err
	}
	drop(there)
	own, err := git.Holds(p.own, slices.Collect(maps.Keys(files)))
	if err != nil {
		return err
	}
	drop(slices.Collect(maps.Keys(own)))
	if len(files) == 0 {
		return nil
	}
	at, err := filtered.WithheldAt(p.filtered, slices.Collect(maps.Keys(files)))
	if err != nil {
		return err
	}
	for id, paths := range files {
		for _, path := range paths {
			if !slices.Contains(at[id], path) {
				return fmt.Errorf("%q is the file %s: %w", path, id, errWithheld)
			}
		}
	}
	return nil
}
