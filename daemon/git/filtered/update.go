package filtered

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"polis/daemon/git"
	"polis/daemon/store"
	"polis/fusefs/policy"
	"polis/internal/failpoint"
)

const (
	// maxObjects bounds the files that are judged at once. Few trees can have more paths
	// than can be counted.
	maxObjects = 20_000_000
	// maxAlone bounds the refs that are read one by one when all together cannot be read.
	maxAlone = 200
)

// tips are what refs lead to, as far as it is of use for a store.
type tips struct {
	all     []string // commits, trees and tags: all of their history and trees
	commits []string // those that are or lead to commits, sorted
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
	slices.Sort(t.commits)
	return t, nil
}

func (t *tips) isCommit(id string) bool {
	_, ok := slices.BinarySearch(t.commits, id)
	return ok
}

// update adds what the refs lead to and the store lacks.
func (s *objectStore) update(ctx context.Context) error {
	t, err := s.k.tips(ctx)
	if err != nil {
		return err
	}
	was := s.load()
	fresh := slices.DeleteFunc(slices.Clone(t.all), func(id string) bool { return was.has[id] })
	if len(fresh) == 0 && len(was.Tips)+len(was.Odd) == len(t.all) {
		return nil
	}
	err = s.add(ctx, &was, t, fresh)
	if err != nil && ctx.Err() == nil && len(fresh) > 1 && len(fresh) <= maxAlone {
		// One that cannot be read must not keep the others away.
		s.k.Log.Warn("refs are read one by one", "op", "filter", "path", s.dir, "err", err)
		err = nil
		for _, id := range fresh {
			err = errors.Join(err, s.add(ctx, &was, t, []string{id}))
		}
	}
	if err != nil && ctx.Err() == nil && len(was.Tips) > 0 {
		for _, id := range fresh {
			if !was.has[id] {
				was.Odd = append(was.Odd, id)
			}
		}
		s.k.Log.Error("refs are left out of filtered objects", "op", "filter", "path", s.dir, "refs", len(was.Odd), "err", err)
		err = nil
	}
	if err != nil {
		return err
	}
	if err := s.compact(ctx); err != nil {
		s.k.Log.Warn("packs of filtered objects are not joined", "op", "filter", "path", s.dir, "err", err)
	}
	// What no ref leads to any more bounds nothing: maintenance may remove it.
	gone := func(id string) bool { _, ok := slices.BinarySearch(t.all, id); return !ok }
	was.Tips, was.Odd = slices.DeleteFunc(was.Tips, gone), slices.DeleteFunc(was.Odd, gone)
	return store.WriteJSON(filepath.Join(s.dir, stateFile), was)
}

// add adds what some of the tips lead to.
func (s *objectStore) add(ctx context.Context, st *state, t tips, some []string) error {
	// A tip that maintenance has removed meanwhile bounds nothing.
	had, err := s.k.Repo.Present(ctx, st.Tips)
	if err != nil {
		return err
	}
	not := make([]string, len(had))
	for i, id := range had {
		not[i] = "^" + id
	}
	files, held, err := s.judge(ctx, t, some, not)
	if err != nil {
		return err
	}
	var ids []string
	if len(some) > 0 {
		if ids, err = s.k.Repo.Skeleton(ctx, slices.Concat(some, not)); err != nil {
			return err
		}
	}
	for id := range files {
		ids = append(ids, hex.EncodeToString([]byte(id)))
	}
	if err := s.pack(ctx, s.k.Repo, ids); err != nil {
		return err
	}
	failpoint.Hit("filter:packed")
	if st.Withheld, err = s.note(held, st.Withheld); err != nil {
		return err
	}
	for _, id := range some {
		st.Tips = append(st.Tips, id)
		st.has[id] = true
	}
	s.k.Log.Info("filtered objects were brought up to the refs", "op", "filter", "path", s.dir, "objects", len(ids), "withheld", len(held))
	return nil
}

// file is a file in some commit.
type file struct{ path, id string }

// judge returns the ids, as bytes, of the files that may be read, and the files that may not.
func (s *objectStore) judge(ctx context.Context, t tips, some, not []string) (map[string]struct{}, []file, error) {
	files := map[string]struct{}{}
	held := map[file]struct{}{}
	seen, size := 0, 0
	add := func(id string) error {
		b, err := hex.DecodeString(id)
		files[string(b)] = struct{}{}
		return err
	}
	if slices.ContainsFunc(some, t.isCommit) {
		err := s.k.Repo.Introduced(ctx, slices.Concat(slices.DeleteFunc(slices.Clone(some), func(id string) bool { return !t.isCommit(id) }), not), func(path, id string) error {
			if seen++; seen > maxObjects {
				return fmt.Errorf("%w: more than %d files", git.ErrTooLarge, maxObjects)
			}
			if s.readable(path) {
				return add(id)
			}
			if size < maxWithheld {
				held[file{path, id}] = struct{}{}
			}
			size += len(path)
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	// A tag of a single file says nothing about a path: it shows what nothing withholds.
	if len(t.files) > 0 && size < maxWithheld {
		secret, err := withheldIDs(s.dir, t.files)
		if err != nil {
			return nil, nil, err
		}
		for f := range held {
			secret[f.id] = f.path
		}
		for _, id := range t.files {
			if _, ok := secret[id]; !ok {
				if err := add(id); err != nil {
					return nil, nil, err
				}
			}
		}
	}
	list := make([]file, 0, len(held))
	for f := range held {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return files, list, nil
}

// readable reports whether the view would let the agent read a file of that name.
func (s *objectStore) readable(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		switch strings.ToLower(part) {
		case "", ".", "..", ".git":
			return false
		}
	}
	return s.set.DecideThrough(path, false).Read == policy.Allow
}
