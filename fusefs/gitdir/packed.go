package gitdir

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxPacked is the largest packed-refs, in bytes.
const maxPacked = 64 << 20

// packedCache caches the content of packed-refs.
type packedCache struct {
	ino, size  int64
	sec, nsec  int64
	refs       map[string]string
	everLoaded bool
}

func dupDir(fd int) (int, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return -1, fmt.Errorf("gitdir: duplicate the directory's descriptor: %w", err)
	}
	return n, nil
}

func closeDir(fd int) error { return unix.Close(fd) }

// resolve are the openat2(2) flags for names below the shared root: no link is followed.
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// exists reports whether a name exists as a file or as a packed ref. It returns true if that is
// unknown: the name is then not free.
func (g *Guard) exists(path string) bool {
	if g.loose(path) {
		return true
	}
	if !strings.HasPrefix(path, "refs/") {
		return false
	}
	refs, err := g.packedRefs()
	if err != nil {
		return true
	}
	_, ok := refs[path]
	return ok
}

// loose reports whether a file of that name exists, or can exist.
func (g *Guard) loose(path string) bool {
	fd, err := unix.Openat2(g.roots[Route(path, g.cfg.Worktree)], path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: resolve})
	if err == nil {
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		_ = unix.Close(fd) //nolint:errcheck // opened only for fstat
		// git removes an empty directory that blocks the name of a ref.
		if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return true
		}
	} else if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOTDIR) {
		return true
	}
	return false
}

// packedRefs returns the present packed refs.
func (g *Guard) packedRefs() (map[string]string, error) {
	fd, err := unix.Openat2(g.root, "packed-refs", &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK, Resolve: resolve})
	if errors.Is(err, syscall.ENOENT) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open packed-refs: %w", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("stat packed-refs: %w", err)
	}
	now := packedCache{ino: int64(st.Ino), size: st.Size, sec: st.Mtim.Sec, nsec: st.Mtim.Nsec, everLoaded: true}
	g.mu.Lock()
	old := g.packed
	g.mu.Unlock()
	now.refs = old.refs
	if old.everLoaded && old.ino == now.ino && old.size == now.size && old.sec == now.sec && old.nsec == now.nsec {
		return old.refs, nil
	}
	if now.refs, err = parsePacked(stream(at{fd})); err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.packed = now
	g.mu.Unlock()
	return now.refs, nil
}

// packedHeader begins the first line of packed-refs, with the traits of the file after it.
const packedHeader = "# pack-refs with:"

// parsePacked reads packed-refs: lines "HASH NAME", lines "^HASH" with the peeled value of the tag
// before, and perhaps a header. The returned value includes the peeled hash. What git would refuse
// or read otherwise is an error: git dies at a line that it does not know, and does not find the
// refs of a file that is "sorted" and is not (refs/packed-backend.c).
func parsePacked(r io.Reader) (map[string]string, error) {
	refs := map[string]string{}
	lr := &io.LimitedReader{R: r, N: maxPacked + 1}
	sc := bufio.NewScanner(lr)
	sc.Buffer(nil, 64<<10)
	sc.Split(scanLines)
	first, sorted, tag, last, hashLen := true, false, false, "", 0
	for ; sc.Scan(); first = false {
		line := sc.Text()
		if first && strings.HasPrefix(line, "#") {
			traits, ok := strings.CutPrefix(line, packedHeader)
			if !ok {
				return nil, errors.New("packed-refs: the header is not that of git")
			}
			sorted = slices.Contains(strings.Split(traits, " "), "sorted")
			continue
		}
		peeled := strings.HasPrefix(line, "^")
		h, name, ok := strings.Cut(strings.TrimPrefix(line, "^"), " ")
		if hashLen == 0 {
			hashLen = len(h)
		}
		switch {
		case !isHash(h) || ok == peeled || !peeled && !strings.HasPrefix(name, "refs/"):
			return nil, errors.New("packed-refs: a line is not HASH NAME")
		case len(h) != hashLen:
			return nil, errors.New("packed-refs: hashes of two lengths")
		case peeled && !tag:
			return nil, errors.New("packed-refs: a peeled line without its tag")
		case peeled:
			refs[last] += line
			tag = false
			continue
		case sorted && name <= last:
			return nil, fmt.Errorf("packed-refs: %s is not sorted", name)
		}
		if _, twice := refs[name]; twice {
			return nil, fmt.Errorf("packed-refs: %s is there twice", name)
		}
		refs[name], last, tag = h, name, true
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("packed-refs: %w", err)
	}
	if lr.N <= 0 {
		return nil, errors.New("packed-refs is too large")
	}
	return refs, nil
}

// scanLines is bufio.ScanLines as git has it: a CR belongs to the line, and the last line ends with a
// newline.
func scanLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, errors.New("the last line does not end")
	}
	return 0, nil, nil
}

func isHash(s string) bool { return (len(s) == 40 || len(s) == 64) && isHex(s) }
