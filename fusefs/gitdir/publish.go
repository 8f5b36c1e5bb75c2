package gitdir

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"syscall"

	"github.com/pjbgf/sha1cd"
	"golang.org/x/sys/unix"

	"polis/fusefs"
	"polis/fusefs/gitdir/fsck"
)

// maxObject is the largest loose object, in bytes after decompression.
const maxObject = 4 << 30

// Publish implements fusefs.Guard. An object must have the content that its name says, a ref must
// contain the name of an object, and packed-refs may differ only in the agent's own refs. A
// published file can no longer be opened for writing.
func (g *Guard) Publish(ctx context.Context, c fusefs.Caller, oldPath, newPath string, content int) syscall.Errno {
	what := classify(newPath, g.cfg.Worktree)
	switch what {
	case classObject, classPack, classRef, classPacked:
	default:
		return 0
	}
	refuse := func(why error) syscall.Errno {
		code := "UNDECLARED_WRITE"
		if errors.Is(why, fsck.ErrTree) {
			code = codeBadTree
		}
		return g.deny(c, fusefs.OpRename, newPath, code, why.Error())
	}
	if content < 0 {
		return refuse(errors.New(hintOdd))
	}
	if !g.closed(ctx, oldPath) {
		return refuse(errors.New("it is still open for writing"))
	}
	// A shared mapping stays writable after its descriptor is closed.
	if err := fusefs.NoWriters(ctx, content); err != nil {
		return refuse(fmt.Errorf("it can still be changed: %w", err))
	}
	switch what {
	case classObject, classPack:
		// git repack replaces a pack that has the same objects. Its name is that of its content.
		if what == classObject && g.exists(newPath) {
			return syscall.EEXIST
		}
		size, err := sizeOf(content)
		if err != nil {
			return refuse(err)
		}
		if g.full(size) {
			return g.refuseWith(c, fusefs.OpRename, newPath, syscall.EDQUOT, Denial{Code: codeQuota, Hint: g.quotaHint()})
		}
		check := checkObject
		if what == classPack {
			check = g.checkPack
		}
		if err := check(ctx, at{content}, newPath); err != nil {
			if ctx.Err() != nil {
				return syscall.EINTR
			}
			return refuse(err)
		}
		g.mu.Lock()
		g.sealed[oldPath] = true
		g.mu.Unlock()
		g.spend(size)
	case classRef:
		hash, err := checkRef(at{content})
		if err == nil {
			err = g.complete(ctx, newPath, hash)
		}
		if ctx.Err() != nil {
			return syscall.EINTR
		}
		if err != nil {
			return refuse(err)
		}
		g.own(newPath)
	case classPacked:
		if err := g.checkPacked(ctx, at{content}); err != nil {
			return refuse(err)
		}
	}
	return 0
}

func (g *Guard) own(ref string) {
	if ofRemote(ref) {
		return
	}
	g.mu.Lock()
	known := g.owned[ref]
	g.owned[ref] = true
	g.mu.Unlock()
	if !known && g.cfg.OnOwn != nil {
		g.cfg.OnOwn(ref)
	}
}

// disown makes a ref that the agent removed available: another agent that makes the name owns it.
func (g *Guard) disown(ref string) {
	if ofRemote(ref) {
		return
	}
	g.mu.Lock()
	known := g.owned[ref]
	delete(g.owned, ref)
	g.mu.Unlock()
	if known && g.cfg.OnDisown != nil {
		g.cfg.OnDisown(ref)
	}
}

// at reads a descriptor at offsets, independently of its shared file offset.
type at struct{ fd int }

// ReadAt implements io.ReaderAt.
func (a at) ReadAt(p []byte, off int64) (int, error) {
	n, err := unix.Pread(a.fd, p, off)
	if err != nil {
		return max(n, 0), err
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func stream(a at) io.Reader { return io.NewSectionReader(a, 0, 1<<62) }

// checkObject inflates a loose object and compares its hash with its name (gitformat-loose: "TYPE
// SIZE\0" and the content, deflated). A tree must be one that git checks out: git itself makes no
// other from a worktree. Trees in packs are checked at the merge.
func checkObject(ctx context.Context, a at, path string) error {
	part := strings.Split(path, "/")
	name := part[1] + part[2]
	h := objectHash(len(name) / 2)
	f := inflaters.Get().(*inflater)
	defer f.done()
	if err := f.reset(stream(a)); err != nil {
		return fmt.Errorf("object is not deflated: %w", err)
	}
	in, body := f.in, f.body
	body.Reset(io.TeeReader(&patient{ctx, f.z}, h))
	typ, size, err := objectHeader(body)
	if err != nil {
		return err
	}
	n, err := content(body, typ, size, len(name)/2)
	if err != nil {
		return err
	}
	if n != size {
		return fmt.Errorf("object has %d bytes, its header says %d", n, size)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.New("object has bytes after its end")
	}
	sum, err := objectSum(h)
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(sum); got != name {
		return fmt.Errorf("object is %s, not %s", got, name)
	}
	return nil
}

// objectHash returns the hash function of objects whose names have that many bytes. Like git's
// own, its SHA-1 detects content that was made for a collision.
func objectHash(size int) hash.Hash {
	if size == sha256.Size {
		return sha256.New()
	}
	return sha1cd.New()
}

// objectSum returns the name of the hashed content.
func objectSum(h hash.Hash) ([]byte, error) {
	c, ok := h.(sha1cd.CollisionResistantHash)
	if !ok {
		return h.Sum(nil), nil
	}
	sum, collides := c.CollisionResistantSum(nil)
	if collides {
		return nil, fmt.Errorf("object is half of a SHA-1 collision (%x): another content has the same name", sum)
	}
	return sum, nil
}

// content reads an object's content to its end and returns its size. It checks a tree while it
// reads.
func content(r *bufio.Reader, typ string, size int64, hashLen int) (int64, error) {
	in := &counted{r: io.LimitReader(r, maxObject+1)}
	if typ == "tree" {
		if size > fsck.MaxTree {
			return 0, fmt.Errorf("%w: it has %d bytes, at most %d", fsck.ErrTree, size, fsck.MaxTree)
		}
		if err := fsck.Tree(bufio.NewReader(in), hashLen); errors.Is(err, fsck.ErrTree) {
			return 0, fmt.Errorf("the tree is malformed: %w", err)
		} else if err != nil {
			return 0, fmt.Errorf("object is damaged: %w", err)
		}
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return 0, fmt.Errorf("object is damaged: %w", err)
	}
	return in.n, nil
}

// counted counts the bytes that are read.
type counted struct {
	r io.Reader
	n int64
}

// Read implements io.Reader.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

func objectHeader(r *bufio.Reader) (string, int64, error) {
	head := make([]byte, 0, 32)
	for len(head) < 32 {
		b, err := r.ReadByte()
		if err != nil {
			return "", 0, fmt.Errorf("object is damaged: %w", err)
		}
		if b != 0 {
			head = append(head, b)
			continue
		}
		typ, num, _ := strings.Cut(string(head), " ")
		size, err := strconv.ParseInt(num, 10, 64)
		if err != nil || size < 0 || size > maxObject || strconv.FormatInt(size, 10) != num {
			return "", 0, errors.New("object header has no valid size")
		}
		switch typ {
		case "blob", "tree", "commit", "tag":
			return typ, size, nil
		}
		return "", 0, errors.New("object header has no valid type")
	}
	return "", 0, errors.New("object header does not end")
}

// patient stops reading when the request is cancelled.
type patient struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (p *patient) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.r.Read(b)
}

// checkRef requires one object name. A symbolic ref would make a name that the agent owns refer to
// one that it does not own.
func checkRef(a at) (hash string, err error) {
	b, err := io.ReadAll(io.LimitReader(stream(a), 80))
	if err != nil {
		return "", fmt.Errorf("read the new ref: %w", err)
	}
	s := string(bytes.TrimSuffix(b, []byte("\n")))
	if isHash(s) {
		return s, nil
	}
	return "", errors.New("a ref in the shared directory must hold an object name, not a symbolic ref")
}
