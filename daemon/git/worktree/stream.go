package worktree

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/host/walk"
)

// commit stores the changed files on top of the index's tree and makes the trash ref, in one
// git-fast-import(1): it accepts names of any bytes and file contents unchanged, without filters
// and line-end conversion, and never opens a path that the agent could turn into a symlink
// meanwhile.
func (s *saver) commit(ctx context.Context, root *os.File, tree, index string, parents, changed []string) error {
	group, ctx := errgroup.WithContext(ctx)
	r, pipe := io.Pipe()
	group.Go(func() error {
		_, err := s.w.store(s.agent).Do(ctx, git.Cmd{
			Args: []string{"fast-import", "--quiet", "--done", "--date-format=raw"}, Stdin: r, Timeout: s.w.cfg.SaveTime,
			Config: []string{"fastimport.unpackLimit=0"}, // another program would do that
		})
		r.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		return err
	})
	group.Go(func() error {
		buf := bufio.NewWriterSize(pipe, 64<<10)
		err := s.stream(buf, root, tree, index, parents, changed)
		if err == nil {
			err = buf.Flush()
		}
		pipe.CloseWithError(err)
		return err
	})
	return group.Wait()
}

func (s *saver) stream(out *bufio.Writer, root *os.File, tree, index string, parents, changed []string) error {
	fmt.Fprintf(out, "commit %s\ncommitter polis <polis@localhost> %d +0000\n", s.out.Ref, s.out.Time.Unix())
	message := describe(s.out, index)
	fmt.Fprintf(out, "data %d\n%s\n", len(message), message)
	for i, p := range parents {
		verb := "merge"
		if i == 0 {
			verb = "from"
		}
		fmt.Fprintf(out, "%s %s\n", verb, p)
	}
	fmt.Fprintf(out, "M 040000 %s \"\"\n", tree)
	// Deletions first: a file may stand where a directory was.
	var files []string
	for _, name := range changed {
		there, err := exists(root, name)
		if err != nil {
			return err
		}
		if there {
			files = append(files, name)
		} else {
			fmt.Fprintf(out, "D %s\n", quote(name))
		}
	}
	for _, name := range files {
		if err := s.file(out, root, name); err != nil {
			return fmt.Errorf("save %q: %w", name, err)
		}
	}
	_, err := out.WriteString("\ndone\n")
	return err
}

// file writes one file or symlink.
func (s *saver) file(out *bufio.Writer, root *os.File, name string) error {
	f, err := openBelow(root, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return gone(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		to := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(int(f.Fd()), "", to)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "M 120000 inline %s\ndata %d\n", quote(name), n)
		_, err = out.WriteString(string(to[:n]) + "\n")
		return err
	case unix.S_IFREG:
		return s.regular(out, root, name)
	}
	return nil // git stores no pipes, sockets and devices
}

func (s *saver) regular(out *bufio.Writer, root *os.File, name string) error {
	f, err := openBelow(root, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW)
	if err != nil {
		return gone(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return err
	}
	if unsavable(fi) {
		s.out.Large = append(s.out.Large, name)
		return nil
	}
	mode := "100644"
	if fi.Mode()&0o100 != 0 {
		mode = "100755"
	}
	// The size comes first in the stream, so it holds even if the file changes now.
	fmt.Fprintf(out, "M %s inline %s\ndata %d\n", mode, quote(name), fi.Size())
	n, err := io.Copy(out, io.LimitReader(f, fi.Size()))
	if err != nil {
		return err
	}
	if n < fi.Size() {
		s.out.Torn = append(s.out.Torn, name)
		if _, err := io.CopyN(out, zeros{}, fi.Size()-n); err != nil {
			return err
		}
	}
	_, err = out.WriteString("\n")
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// gone ignores the error for a file that was removed after it was listed.
func gone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	return err
}

// exists reports whether name is a file that git stores, and not below a symlink.
func exists(root *os.File, name string) (bool, error) {
	f, err := openBelow(root, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return false, gone(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return false, err
	}
	kind := st.Mode & unix.S_IFMT
	return kind == unix.S_IFREG || kind == unix.S_IFLNK, nil
}

// openBelow opens a path below root that does not leave it: by no "..", symlink, magic link or
// mount.
func openBelow(root *os.File, name string, flags uint64) (*os.File, error) {
	// With O_PATH and O_NOFOLLOW a symlink as the last component is opened
	// itself (openat2(2)); anywhere else it is refused.
	return walk.Inside(root, name, unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_XDEV})
}

// Lower opens the files of a worktree below the view that may cover it. The caller closes it.
func (w *Workspace) Lower(agent string) (*os.File, error) {
	if err := w.usable(agent); err != nil {
		return nil, err
	}
	f, err := w.lower(agent, View{})
	if err != nil {
		return nil, api.Errorf(api.CodeWorktreeFailed, "%w", err)
	}
	return f, nil
}

// lower opens the directory of a worktree below the view that may cover it.
func (w *Workspace) lower(agent string, v View) (*os.File, error) {
	if v.Root != nil {
		fd, err := unix.FcntlInt(v.Root.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open the worktree of %s: %w", agent, err)
		}
		return os.NewFile(uintptr(fd), agent), nil
	}
	if merged, err := w.openMerged(context.Background(), agent); merged != nil || err != nil {
		return merged, err
	}
	return w.uncoveredDir(agent)
}

// uncoveredDir opens a worktree's own directory, which a view may cover. If the worktree has layers,
// it is the upper one.
func (w *Workspace) uncoveredDir(agent string) (*os.File, error) {
	at, name := unix.AT_FDCWD, w.tree(agent)
	if os.Geteuid() == 0 {
		tree, err := w.uncoveredTrees()
		if err != nil {
			return nil, fmt.Errorf("open the tree below the view of %s: open_tree: %w", agent, err)
		}
		defer unix.Close(tree)
		at, name = tree, agent
	}
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the worktree of %s: %w", agent, err)
	}
	return os.NewFile(uintptr(fd), filepath.Base(name)), nil
}

// quote writes a path as git-fast-import(1) reads it, whatever bytes it has.
func quote(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
