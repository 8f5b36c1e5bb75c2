package filtered

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"polis/daemon/failpoint"
	"polis/daemon/git"
	"polis/daemon/store"
	"polis/fusefs/policy"
)

// maxObjects bounds the files one store is made of.
const maxObjects = 20_000_000

// tips are what refs lead to, as far as it is of use for a store.
type tips struct {
	all     []string // commits, trees and tags: all of their history and trees
	commits []string // those that are or lead to commits
	files   []string // what tags of single files lead to
}

// tips reads them from the refs.
func (k *Keeper) tips(ctx context.Context) (tips, error) {
	var t tips
	seen := map[string]bool{}
	read := func(r git.Repo, prefixes ...string) error {
		args := append([]string{"for-each-ref", "--format=%(objectname) %(objecttype) %(*objecttype) %(*objectname)"}, prefixes...)
		return r.Lines(ctx, git.Cmd{Args: args}, func(line string) {
			f := strings.Fields(line)
			if len(f) < 2 || !git.IsOID(f[0]) || seen[f[0]] {
				return
			}
			seen[f[0]] = true
			at, id := f[1], f[0]
			if len(f) == 4 {
				at, id = f[2], f[3]
			}
			if at == "blob" {
				t.files = append(t.files, id)
			}
			if f[1] != "blob" {
				t.all = append(t.all, f[0])
			}
			if at == "commit" || at == "tag" {
				t.commits = append(t.commits, f[0])
			}
		})
	}
	err := read(k.Repo, "refs/heads", "refs/tags", "refs/notes", "refs/remotes")
	if err == nil && k.Remotes.Dir != "" {
		// What was fetched is in the shared repository.
		r := k.Remotes
		r.Objects, r.Alternates = k.Repo.ObjectDir(), []string{r.ObjectDir()}
		err = read(r, "refs/polis/remotes")
	}
	if err != nil {
		return t, fmt.Errorf("read refs: %w", err)
	}
	slices.Sort(t.all)
	return t, nil
}

// bring adds what the refs lead to and the store lacks.
func (s *objectStore) bring(ctx context.Context) error {
	t, err := s.k.tips(ctx)
	if err != nil {
		return err
	}
	was := s.load()
	if slices.Equal(was.Tips, t.all) {
		return nil
	}
	// A tip that maintenance has removed meanwhile bounds nothing.
	had, err := s.k.Repo.Present(ctx, was.Tips)
	if err != nil {
		return err
	}
	var not []string
	for _, id := range had {
		not = append(not, "^"+id)
	}
	files, held, err := s.judge(ctx, t, not)
	if err != nil {
		return err
	}
	ids, err := s.k.Repo.Skeleton(ctx, append(slices.Clone(t.all), not...))
	if err != nil {
		return err
	}
	for id := range files {
		ids = append(ids, hex.EncodeToString([]byte(id)))
	}
	if err := s.pack(ctx, s.k.Repo, ids); err != nil {
		return err
	}
	failpoint.Hit("filter:packed")
	size, err := s.note(held, was.Withheld)
	if err != nil {
		return err
	}
	if err := s.compact(ctx); err != nil {
		s.k.Log.Warn("packs of filtered objects are not joined", "op", "filter", "path", s.dir, "err", err)
	}
	if err := store.WriteJSON(filepath.Join(s.dir, stateFile), state{Tips: t.all, Withheld: size}); err != nil {
		return err
	}
	s.k.Log.Info("filtered objects were brought up to the refs", "op", "filter", "path", s.dir, "objects", len(ids), "withheld", len(held))
	return nil
}

// file is a file in some commit.
type file struct{ path, id string }

// judge returns the ids, as bytes, of the files that may be read, and the files that may not.
func (s *objectStore) judge(ctx context.Context, t tips, not []string) (map[string]struct{}, []file, error) {
	files := map[string]struct{}{}
	held := map[file]struct{}{}
	var bad error
	add := func(id string) {
		b, err := hex.DecodeString(id)
		if err != nil {
			bad = err
		}
		files[string(b)] = struct{}{}
	}
	if len(t.commits) > 0 {
		err := s.k.Repo.Introduced(ctx, append(slices.Clone(t.commits), not...), func(path, id string) {
			if s.readable(path) {
				add(id)
			} else {
				held[file{path, id}] = struct{}{}
			}
			if len(files)+len(held) > maxObjects {
				bad = fmt.Errorf("%w: more than %d files", git.ErrTooLarge, maxObjects)
			}
		})
		if err = errors.Join(err, bad); err != nil {
			return nil, nil, err
		}
	}
	// A tag of a single file says nothing about a path: it shows what nothing withholds.
	if len(t.files) > 0 {
		secret, err := withheldIDs(s.dir, t.files)
		if err != nil {
			return nil, nil, err
		}
		for f := range held {
			secret[f.id] = f.path
		}
		for _, id := range t.files {
			if _, ok := secret[id]; !ok {
				add(id)
			}
		}
	}
	list := make([]file, 0, len(held))
	for f := range held {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return files, list, bad
}

// readable says whether the view would let the agent read a file of that name.
func (s *objectStore) readable(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		switch strings.ToLower(part) {
		case "", ".", "..", ".git":
			return false
		}
	}
	return s.set.DecideThrough(path, false).Read == policy.Allow
}
