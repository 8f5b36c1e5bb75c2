package worktree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"polis/fusefs/fdtree"
)

// only adds the paths to the arguments of a git command. What the setup command made is among them: it
// shows as untracked if the agent changed what git ignores.
func (s *changeSet) only(args []string) []string {
	return slices.Concat(args, []string{"--"}, s.paths, s.made)
}

// writeIndex creates an index of the owner's in a scratch directory, as if it were written at a time.
func (w *Workspace) writeIndex(path string, text []byte, at time.Time) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, setTime(f, at), w.giveFile(f), f.Close())
}

// scratchIndex is writeIndex for the name index in a directory below a scratch directory, which its owner can exchange.
func (w *Workspace) scratchIndex(dir string, text []byte, at time.Time) error {
	root, err := openScratch(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.OpenFile("index", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, setTime(f, at), w.giveFile(f), f.Close())
}

// setTime sets the times of an open file.
func setTime(f *os.File, at time.Time) error {
	ts, err := unix.TimeToTimespec(at)
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(int(f.Fd()), "", []unix.Timespec{ts, ts}, unix.AT_EMPTY_PATH)
}

// untrusted is a time of an index for which git compares the content of every file.
var untrusted = time.Unix(1, 0)

// readFiles runs git over the files of a worktree, within bounds: over all of them, or over those
// that can differ. args must select nothing.
func (w *Workspace) readFiles(ctx context.Context, agent string, v View, args ...string) (out []byte, err error) {
	set, err := w.changes(ctx, agent, v)
	if err != nil {
		return nil, err
	}
	if set == nil {
		return w.readWhole(ctx, agent, v, args)
	}
	return w.readChanges(ctx, agent, v, set, args)
}

// readWhole is readFiles for a whole worktree.
func (w *Workspace) readWhole(ctx context.Context, agent string, v View, args []string) (out []byte, err error) {
	tmp, err := w.scratch("save-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(tmp)) }()
	index, err := w.unmarkedIndex(ctx, agent, v, tmp)
	if err != nil {
		return nil, err
	}
	return w.within(ctx, agent, w.cmd(agent, v, index, args...))
}

// readChanges is readFiles for what can differ.
func (w *Workspace) readChanges(ctx context.Context, agent string, v View, set *changeSet, args []string) (out []byte, err error) {
	if len(set.paths) == 0 {
		return nil, nil
	}
	tmp, err := w.scratch("save-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(tmp)) }()
	index := filepath.Join(tmp, "index")
	if err := w.writeIndex(index, set.part, set.written); err != nil {
		return nil, err
	}
	return w.within(ctx, agent, w.cmd(agent, v, index, set.only(args)...))
}
