package timeline

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/snapshot"
)

// Host is what a timeline needs of the agents.
type Host interface {
	// Still calls act while none of the agent's processes runs, and no change of its files begins.
	// reason is for people. act must observe its context.
	Still(ctx context.Context, agent, reason string, act func(context.Context, Tree) error) error
	// Hold calls act while no other operation of the agent begins. Its processes run, until still holds them
	// as Still does.
	Hold(ctx context.Context, agent string, act func(ctx context.Context, still Still) error) error
	// Read calls act while the agent may change its files.
	Read(ctx context.Context, agent string, act func(context.Context, Tree) error) error
	// Writable makes the files that Still opens ones that can be changed.
	Writable(ctx context.Context, agent string) error
	// KeepCommits keeps commits of the agent, with what they reach, until DropCommits is called with a function
	// that does not report them as needed.
	KeepCommits(ctx context.Context, agent string, commits []string) error
	DropCommits(ctx context.Context, needed func(agent, commit string) bool) error
	// Lock takes the write leases of paths for the agent; it waits for no other holder. release gives
	// back what was taken.
	Lock(ctx context.Context, agent string, paths []string) (release func(), err error)
	// Mounted reports whether a snapshot is mounted in the sandbox of its agent, or that is not known.
	Mounted(ctx context.Context, agent, id string) bool
}

// Still calls act while none of the processes of an agent runs: see Host.
type Still func(ctx context.Context, reason string, act func(context.Context, Tree) error) error

// Tree is the files of an agent.
type Tree struct {
	// Root is the worktree below the view. It ends with the call it is passed to.
	Root           *os.File
	Branch, Commit string
	// Ignored reports whether git ignores a path and tracks nothing there.
	Ignored func(path string, dir bool) bool
	// Held are files that git ignores and checkpoints have all the same.
	Held Held
	// Declared reports whether the agent's rules let it write a path.
	Declared func(path string, dir bool) bool
	// Rules is a stamp of what decides what git ignores and is not in the tree.
	Rules string
	// Written is the directory whose files have what is written through Root: Root, or a layer of it.
	// Nil if that is not known.
	Written *os.File
	// Changes makes a cut of the paths that the view changed since an earlier one; nil if nothing keeps
	// them. Note adds paths that are about to change below the view; nil if nothing keeps them.
	Changes func(ctx context.Context, since string) (Changes, error)
	Note    func(ctx context.Context, paths []string) error
	// Skip makes git of a sparse checkout expect those of the files away for which of is true, that are missing, and that an
	// earlier index marks so. index writes that; nil: none was saved. May be nil: the agent has all files.
	Skip func(ctx context.Context, of func(path string) bool, index func(io.Writer) error) error
	// Index opens the index of the agent's git: fs.ErrNotExist if there is none. May be nil.
	Index func() (Index, error)
	// Git is where the agent's git is; nil if that is not known.
	Git *Git
	// Owner owns what is restored.
	Owner snapshot.Owner
	// Changed makes the view show what was changed below it.
	Changed func(context.Context) error
}

// Git is HEAD and the refs of an agent.
type Git struct {
	// Head and Refs are as in api.Snapshot.
	Head string
	Refs map[string]string
	// Movable returns an error unless the refs can be brought to where to has them. Moves returns which would be
	// moved. Move moves them, and makes the index what index writes; nil: what HEAD has.
	Movable func(ctx context.Context, to api.Snapshot) error
	Moves   func(to api.Snapshot) []api.RefMoved
	Move    func(ctx context.Context, to api.Snapshot, index func(io.Writer) error) error
}

// ChangesOf returns what a shim answered.
func ChangesOf(c wire.Changes, err error) (Changes, error) {
	return Changes{Cut: c.Cut, Whole: c.Whole, Paths: stringsOf(c.Paths), Trees: stringsOf(c.Trees)}, err
}

func stringsOf(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

// IndexOf returns an index that was opened.
func IndexOf(f *os.File, fi fs.FileInfo, err error) (Index, error) {
	if err != nil {
		return Index{}, err
	}
	return Index{File: f, Stamp: stamp(fi)}, nil
}

// Stamp returns a text that changes with a file, which may be missing.
func Stamp(path string) string {
	fi, err := os.Lstat(path)
	if err != nil {
		return "none"
	}
	return stamp(fi)
}

func stamp(fi fs.FileInfo) string {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return fi.ModTime().String()
	}
	return fmt.Sprintf("%d %d %d.%09d %d.%09d", st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec)
}
