package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
)

const (
	// saveTime bounds one Save: removing an agent must end. MoveToTrash keeps what git has not
	// stored by then.
	saveTime = 30 * time.Second
	// statusTime bounds git commands that only read a worktree.
	statusTime = 30 * time.Second
	// blockingTime bounds the search for files on which git blocks.
	blockingTime = 5 * time.Second
	// maxSearchDepth is the depth of that search.
	maxSearchDepth = 200
	// maxSaved is the size of the largest file that goes into a trash ref, and sparseFrom that of
	// the smallest one that does not if most of it is a hole, in bytes.
	maxSaved   = 2 << 30
	sparseFrom = 64 << 20
)

// errBlocks: git would block forever on a file of the worktree.
var errBlocks = errors.New("git would block on it: it is not a regular file")

// blocking searches for files on which git blocks: a pipe, socket or device under a name that git
// opens. It returns errBlocks with the first one. What it could not read in time is no error: git
// has a bound of its own.
func blocking(ctx context.Context, root *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, blockingTime)
	defer cancel()
	err := search(ctx, root, ".", "", 0)
	if errors.Is(err, errBlocks) {
		return err
	}
	return nil
}

// blockingAt is blocking for some paths, and what is below them.
func blockingAt(ctx context.Context, root *os.File, paths []string) error {
	ctx, cancel := context.WithTimeout(ctx, blockingTime)
	defer cancel()
	for _, name := range paths {
		f, err := openBelow(root, name, unix.O_PATH|unix.O_NOFOLLOW)
		if err != nil {
			continue // removed
		}
		fi, err := f.Stat()
		if err = errors.Join(err, f.Close()); err != nil {
			continue
		}
		if fi.IsDir() {
			err = search(ctx, root, name, name+"/", 0)
		} else if blocks(path.Base(name), fi.Mode()) {
			err = fmt.Errorf("%q: %w", name, errBlocks)
		}
		if errors.Is(err, errBlocks) {
			return err
		}
	}
	return nil
}

// blocks reports whether git opens a file of this name, and blocks on one of this kind.
func blocks(name string, t fs.FileMode) bool {
	return t&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice|fs.ModeCharDevice|fs.ModeIrregular) != 0 && slices.Contains(git.Opened(), name)
}

func search(ctx context.Context, at *os.File, name, prefix string, depth int) error {
	if ctx.Err() != nil || depth > maxSearchDepth {
		return nil
	}
	dir, err := openBelow(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(1024)
		for _, e := range entries {
			sub := prefix + e.Name()
			switch t := e.Type(); {
			case t.IsDir() && e.Name() != ".git": // git does not enter other repositories
				if err := search(ctx, dir, e.Name(), sub+"/", depth+1); errors.Is(err, errBlocks) {
					return err
				}
			case blocks(e.Name(), t):
				return fmt.Errorf("%q: %w", sub, errBlocks)
			}
		}
		if len(entries) == 0 || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// within runs git over an agent's worktree with a bound; if it did not end in time, the error
// names the file it blocked on.
func (w *Workspace) within(ctx context.Context, agent string, c git.Cmd) ([]byte, error) {
	c.Timeout = statusTime
	out, err := w.Bare().Do(ctx, c)
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return out, err
	}
	root, lerr := w.lower(agent, View{})
	if lerr != nil {
		return out, errors.Join(err, lerr)
	}
	defer root.Close()
	return out, errors.Join(blocking(ctx, root), err)
}

// unsavable reports whether a file is too large for git: larger than what can be written within
// saveTime, or mostly a hole, which git would fill.
func unsavable(fi fs.FileInfo) bool {
	blocks := fi.Size()
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		blocks = st.Blocks
	}
	return tooLargeFor(fi.Size(), blocks)
}

// tooLargeFor is unsavable for a size in bytes and a number of blocks of 512 bytes.
func tooLargeFor(size, blocks int64) bool {
	return size > maxSaved || size > sparseFrom && blocks*512 < size/4
}
