package timeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"polis/daemon/history/snapshot"
)

// Changes are the paths of a tree that may differ since a cut.
type Changes struct {
	// Cut names the moment.
	Cut string
	// Paths are single paths, Trees are directories at and below which anything may differ.
	Paths, Trees []string
	// Whole is why they are not known; "" if they are.
	Whole string
}

// Index is the index of an agent's git, opened. Stamp changes with the file.
type Index struct {
	File  *os.File
	Stamp string
}

const (
	// maxDelta is the number of paths at which a checkpoint becomes the beginning of a new series: it then has
	// the whole list of files.
	maxDelta = 4096
	// maxOpen and maxLinked bound what is remembered of one checkpoint: files that can still be written,
	// and files with several names. With more, the next one reads the whole tree.
	maxOpen   = 1000
	maxLinked = 1000
	// fewFiles and fewBytes bound the tree that is read as a whole while the agent is still. A larger one
	// is read before that.
	fewFiles = 2000
	fewBytes = 32 << 20
	// maxIndex bounds the index that is saved, in bytes: about a million files.
	maxIndex = 128 << 20
	// maxChanged is how many names of changed paths a record has, for people.
	maxChanged = 20
)

// series is what a record has so that the next checkpoint need not read the whole tree.
type series struct {
	Cut string `json:"cut,omitempty"`
	// Delta is the hash of the snapshot.Delta from the manifest to this state; "" if it is the state of
	// the manifest.
	Delta string `json:"delta,omitempty"`
	// Open are files that something could still write. Linked are those with several names.
	Open   [][]byte `json:"open,omitempty"`
	Linked [][]byte `json:"linked,omitempty"`
	// Rules and Index are the stamps of what is not in the tree and decides what is covered, and of the
	// index.
	Rules      string `json:"rules,omitempty"`
	IndexStamp string `json:"index_stamp,omitempty"`
	// Stop is why the next checkpoint has to read the whole tree; "" if it need not.
	Stop string `json:"stop,omitempty"`
	// Loose is true if the tree was not still when it was read: the record is the state of no moment, and
	// only the next one is.
	Loose bool `json:"loose,omitempty"`
}

// captured is the state of a tree: what from has, changed by delta, or the state itself if from is nil.
type captured struct {
	from     string // hash of the manifest
	delta    *snapshot.Delta
	state    *snapshot.Manifest // nil until it is needed, if there is a delta
	changed  *snapshot.Delta    // since the last checkpoint; nil if the whole tree was read
	leftOut  int
	nothing  bool // no path has changed
	recorded series
	whole    string // why the whole tree was read
}

// capture reads what has changed in a tree since the last checkpoint, or all of it.
func (w *writer) capture(ctx context.Context, tree Tree) (*captured, error) {
	t := w.t
	last, _ := t.last(w.rec.Agent)
	c := &captured{recorded: series{Rules: tree.rules()}}
	now := Changes{Whole: "the agent's view keeps no set of changed paths"}
	if tree.Changes != nil {
		var err error
		if now, err = tree.Changes(ctx, last.Cut); err != nil {
			t.Log.Warn("changed paths not known", "agent", w.rec.Agent, "err", err)
			now = Changes{Whole: "the agent's shim does not answer"}
		}
	}
	c.recorded.Cut = now.Cut
	paths := slices.Clone(now.Paths)
	for _, p := range last.Open {
		paths = append(paths, string(p))
	}
	trees := slices.Clone(now.Trees)
	for _, p := range paths {
		if path.Base(p) == ".gitignore" { // what its directory covers can be otherwise
			trees = append(trees, path.Dir(p))
		}
	}
	if c.whole = unsure(now, last.series, tree.rules(), paths); c.whole == "" {
		err := w.partly(ctx, tree, c, last, paths, trees)
		if err == nil || !errors.Is(err, errWhole) {
			return c, err
		}
		c.whole = err.Error()
	}
	s := w.scanner(tree)
	s.Loose, c.recorded.Loose = w.loose, w.loose
	if w.limited {
		s.MaxFiles, s.MaxBytes = fewFiles, fewBytes
	}
	m, err := s.Run(ctx)
	if w.limited && errors.Is(err, snapshot.ErrTooLarge) {
		return nil, fmt.Errorf("%w: %s", ErrLarge, c.whole)
	}
	if err != nil {
		return nil, err
	}
	c.state, c.leftOut = m, s.Left
	c.recorded.note(s)
	return c, nil
}

// errWhole reports that the paths that changed do not tell what differs.
var errWhole = errors.New("the whole tree was read")

// ErrLarge reports that all of a tree must be read, and that this takes too long.
var ErrLarge = errors.New("the whole tree must be read")

// unsure returns why the whole tree must be read, "" if the paths are enough.
func unsure(now Changes, last series, rules string, paths []string) string {
	switch {
	case last.Cut == "":
		return "it is the first checkpoint"
	case now.Whole != "":
		return now.Whole
	case last.Stop != "":
		return last.Stop
	case last.Rules != rules:
		return "the rules of what git ignores have changed"
	}
	linked := map[string]bool{}
	for _, p := range last.Linked {
		linked[string(p)] = true
	}
	for _, p := range slices.Concat(paths, now.Trees) {
		if p == ".gitignore" {
			return "the rules of what git ignores have changed"
		}
		if linked[p] {
			return "a file with several names has changed"
		}
	}
	return ""
}

// partly reads only what may have changed.
func (w *writer) partly(ctx context.Context, tree Tree, c *captured, last record, paths, trees []string) error {
	s := w.scanner(tree)
	d, err := s.Paths(ctx, paths, trees)
	if err != nil {
		return err
	}
	if len(s.Linked) > 0 {
		return fmt.Errorf("%w: a file with several names has changed", errWhole)
	}
	before, err := w.t.deltaOf(last)
	if err != nil {
		return fmt.Errorf("%w: %w", errWhole, err)
	}
	c.leftOut = last.LeftOut
	c.recorded.note(s)
	c.recorded.Linked = last.Linked
	c.from, c.changed = last.Manifest, news(before, d)
	c.nothing = len(c.changed.Cleared)+len(c.changed.Entries) == 0
	c.delta = before.Then(d)
	if len(c.delta.Cleared)+len(c.delta.Entries) > maxDelta {
		if c.state, err = w.t.stateOf(last.Manifest, c.delta); err != nil {
			return fmt.Errorf("%w: %w", errWhole, err)
		}
		c.from, c.delta = "", nil
	}
	return nil
}

// news is the part of d that before does not say already: a file that was opened and not changed is in the
// set of changed paths, too.
func news(before, d *snapshot.Delta) *snapshot.Delta {
	known := &snapshot.Manifest{Entries: before.Entries}
	out := &snapshot.Delta{}
	same := map[string]bool{}
	for i := range d.Entries {
		e := &d.Entries[i]
		if k := known.Find(e.Path); k != nil && *k == *e && e.Kind != snapshot.Dir {
			same[e.Path] = true
			continue
		}
		out.Entries = append(out.Entries, *e)
	}
	gone := map[string]bool{}
	for _, p := range before.Cleared {
		gone[p] = known.Find(p) == nil
	}
	for _, p := range d.Cleared {
		if !same[p] && !gone[p] {
			out.Cleared = append(out.Cleared, p)
		}
	}
	return out
}

// scanner reads the tree as a checkpoint covers it.
func (w *writer) scanner(tree Tree) *snapshot.Scan {
	s := &snapshot.Scan{Root: tree.Root, Written: tree.Written, Exclude: []string{".git"}, Sink: w.batch, MaxFiles: maxFiles, MaxBytes: w.t.Limits().AgentBytes, Skip: tree.leaves}
	if w.ahead != nil {
		s.Sink, s.Readers = w.ahead, readers()
	}
	return s
}

// note keeps what the next checkpoint needs to know of the files that were read.
func (s *series) note(scan *snapshot.Scan) {
	s.Open, s.Linked = bytesOf(scan.Writable), bytesOf(scan.Linked)
	switch {
	case scan.Written == nil:
		s.Stop = "it is not known which files are open for writing"
	case len(s.Open) > maxOpen:
		s.Stop, s.Open = "more files were open for writing than are remembered", nil
	case len(s.Linked) > maxLinked:
		s.Stop, s.Linked = "more files have several names than are remembered", nil
	}
}

func bytesOf(list []string) (out [][]byte) {
	for _, p := range list {
		out = append(out, []byte(p))
	}
	return out
}
