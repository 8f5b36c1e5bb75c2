package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"polis/daemon/git"
	"polis/daemon/git/gitindex"
)

// A worktree with layers differs from its base tree only where its upper layer, or its index, does.
// git has to read only these paths. A changeSet is the list of them.
const (
	// minBaseIndex is the size of a base's index from which on the list is made, in bytes: about
	// 10,000 files. Git reads fewer of them faster than polis makes the list.
	minBaseIndex = 1 << 20
	// maxIndex bounds the index of an agent that is read, in bytes: about a million files.
	maxIndex = 128 << 20
	// maxChanges and maxChangedBytes bound the paths that are passed to git. With more, git reads the
	// whole worktree.
	maxChanges      = 2000
	maxChangedBytes = 256 << 10
)

// changeSet are the paths at which a worktree can differ from its index, or its index from its HEAD.
// Outside of them all three have what the base tree has.
type changeSet struct {
	base   string   // the id of the base tree
	staged []string // the names at which the index differs from the base tree
	all    []string // these, and all others that were found
	paths  []string // the least list that covers all
	made   []string // the topmost names of what the setup command made, below the base tree
	// bytes is the agent's index as it was read.
	bytes []byte
	// index is the agent's, and part the entries of it that git needs for paths.
	index *gitindex.Index
	part  []byte
	// written is when the agent's index was written. Git compares the content of files that changed
	// since, whatever their times are.
	written time.Time
}

// errWhole is why git reads a whole worktree.
var errWhole = errors.New("the whole worktree is read")

func wholeBecause(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errWhole, fmt.Errorf(format, args...))
}

// changes lists what can differ in an agent's worktree. It returns nil if git has to read all of
// it: it has no layers, it is small, or polis does not understand it.
func (w *Workspace) changes(ctx context.Context, agent string, v View) (*changeSet, error) {
	id, err := w.baseOf(agent)
	if err != nil || id == "" || w.cfg.Mounts == nil || v.Root != nil {
		return nil, err
	}
	if fi, err := os.Lstat(w.bases.At(id).Index); err == nil && fi.Size() < w.minIndex {
		return nil, nil
	}
	set, err := w.listChanges(ctx, agent, id)
	if err == nil {
		return set, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w.cfg.Log.Info("git reads a whole worktree", "agent", agent, "op", "changes", "err", err)
	return nil, nil
}

// listChanges is changes for a worktree with layers, of any size. An error that is not that of ctx
// means that git has to read all of it.
func (w *Workspace) listChanges(ctx context.Context, agent, id string) (*changeSet, error) {
	// Nothing repairs a base that is mounted, or makes it again.
	is, err := w.above(agent)
	if err == nil && !is {
		_, err = w.attach(ctx, agent)
	}
	if err != nil {
		return nil, err
	}
	b := w.bases.At(id)
	var committed []string
	var cerr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		committed, cerr = w.headChanges(ctx, agent, id)
	}()
	set := &changeSet{base: id}
	names, err := w.upperChanges(ctx, agent, b.Tree)
	if err == nil {
		set.made, err = w.madeNames(ctx, agent, b.Tree)
	}
	if err == nil {
		set.staged, err = w.compareIndexes(agent, set, b.Index)
	}
	<-done
	if err = errors.Join(err, cerr); err != nil {
		return nil, err
	}
	all := slices.Concat(names, set.staged, committed)
	differing := make(map[string]bool, len(all))
	for _, name := range all {
		differing[name] = true
	}
	if _, err := w.unmark(ctx, agent, View{}, set.index, func(name string) bool { return differing[name] || covered(differing, name) }); err != nil {
		return nil, err
	}
	return set, set.add(all)
}

// upperChanges lists what the upper layer of a worktree changes.
func (w *Workspace) upperChanges(ctx context.Context, agent, tree string) ([]string, error) {
	upper, err := w.uncoveredDir(agent)
	if err != nil {
		return nil, err
	}
	defer upper.Close()
	lower, err := openDir(tree, tree)
	if err != nil {
		return nil, err
	}
	defer lower.Close()
	return w.cfg.Mounts.Changes(ctx, lower, upper, ".git", maxChanges)
}

// compareIndexes reads the agent's index and returns the names at which it differs from that of the
// base.
func (w *Workspace) compareIndexes(agent string, s *changeSet, base string) ([]string, error) {
	hash := len(s.base) / 2
	text, err := os.ReadFile(base)
	if err != nil {
		return nil, err
	}
	below, err := gitindex.Parse(text, hash)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", base, err)
	}
	root, err := w.openAdmin(agent)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, fi, err := openIndex(root)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s.written = fi.ModTime()
	if fi.Size() > maxIndex {
		return nil, wholeBecause("its index has more than %d bytes", maxIndex)
	}
	s.bytes = make([]byte, fi.Size())
	if _, err := io.ReadFull(f, s.bytes); err != nil {
		return nil, err
	}
	if s.index, err = gitindex.Parse(s.bytes, hash); err != nil {
		return nil, err
	}
	return gitindex.Differences(s.index, below), nil
}

// headChanges lists the paths at which HEAD differs from the base tree.
func (w *Workspace) headChanges(ctx context.Context, agent, base string) ([]string, error) {
	root, err := w.openAdmin(agent)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	text, err := readSmall(root, "HEAD")
	if err != nil {
		return nil, err
	}
	rev := strings.TrimSpace(text)
	if name, ok := strings.CutPrefix(rev, "ref: refs/heads/"); ok && git.CheckBranch(name) == nil {
		rev = git.Branch(name)
	} else if !git.IsOID(rev) {
		return nil, wholeBecause("its HEAD is neither a branch nor a commit")
	}
	return w.of(agent).Changed(ctx, base, rev)
}

// add adds names that differ, and makes the list and the part of the index again.
func (s *changeSet) add(names []string) error {
	s.all = append(s.all, names...)
	for _, name := range names {
		if !filepath.IsLocal(name) || path.Clean(name) != name || name == "." {
			return wholeBecause("%.100q is the name of no file", name)
		}
		if base := path.Base(name); base == ".gitattributes" {
			return wholeBecause("%.100q decides how other files are compared", name)
		} else if strings.EqualFold(base, ".git") {
			return wholeBecause("%.100q is git's own name", name)
		}
	}
	chosen := make(map[string]bool, len(s.all))
	for _, name := range s.all {
		chosen[s.outermost(name)] = true
	}
	s.paths = nil
	size := 0
	for _, name := range s.made {
		size += len(name) + 1
	}
	for _, name := range slices.Sorted(keys(chosen)) {
		if covered(chosen, name) {
			continue
		}
		s.paths = append(s.paths, name)
		size += len(name) + 1
	}
	if len(s.paths)+len(s.made) > maxChanges || size > maxChangedBytes {
		return wholeBecause("it differs from its base tree at %d paths", len(s.paths))
	}
	list, err := s.entries()
	if err != nil {
		return err
	}
	s.part = s.index.Select(list)
	return nil
}

func keys(m map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// outermost returns the directory above name without a tracked file that is nearest to the top, or
// name: git reports an untracked directory as one.
func (s *changeSet) outermost(name string) string {
	for i := range len(name) {
		if name[i] == '/' && !s.index.HasBelow(name[:i]) {
			return name[:i]
		}
	}
	return name
}

// covered reports whether a directory above name is in the list.
func covered(chosen map[string]bool, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if chosen[dir] {
			return true
		}
	}
	return false
}

// entries returns the positions of the entries of the index that git needs for the paths: those at
// and below them, and one in each directory above them, which shows git that the directory is
// tracked.
func (s *changeSet) entries() ([]int, error) {
	need := map[int]bool{}
	add := func(from, to int) {
		for ; from < to; from++ {
			need[from] = true
		}
	}
	above := map[string]bool{}
	for _, name := range s.paths {
		add(s.index.At(name))
		add(s.index.Below(name))
		for dir := path.Dir(name); dir != "." && !above[dir]; dir = path.Dir(dir) {
			above[dir] = true
			if from, to := s.index.At(dir); from < to {
				return nil, wholeBecause("%.100q is a file and a directory in its index", dir)
			}
			from, _ := s.index.Below(dir)
			add(from, from+1)
		}
	}
	list := make([]int, 0, len(need))
	for i := range need {
		list = append(list, i)
	}
	slices.Sort(list)
	return list, nil
}
