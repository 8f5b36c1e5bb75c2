package gitdir

import (
	"bufio"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

// maxPeel bounds a chain of tags of tags.
const maxPeel = 8

// checkPacked allows a new packed-refs that differs from the old one only in refs of the agent,
// or that has others' refs with their present values (git pack-refs). The process that replaces
// it holds packed-refs.lock: in between no other does.
func (g *Guard) checkPacked(ctx context.Context, a at) error {
	if !g.valid("packed-refs.lock") {
		return errors.New("packed-refs is replaced only by who holds packed-refs.lock")
	}
	next, err := parsePacked(stream(a))
	if err != nil {
		return err
	}
	prev, err := g.packedRefs()
	if err != nil {
		return err
	}
	for name, v := range next {
		if prev[name] == v {
			continue
		}
		if g.owns(name) {
			// Its own file was looked at when that was made.
			hash, _, _ := strings.Cut(v, "^")
			if now, err := g.readRef(name); err == nil && now == hash {
				continue
			}
			if err := g.complete(ctx, name, hash); err != nil {
				return err
			}
			continue
		}
		if err := g.unchanged(name, v); err != nil {
			return err
		}
	}
	var gone []string
	for name := range prev {
		if _, ok := next[name]; ok {
			continue
		}
		if !g.owns(name) {
			return fmt.Errorf("packed-refs drops %s, which is not this agent's", name)
		}
		if !g.loose(name) {
			gone = append(gone, name)
		}
	}
	for _, name := range gone {
		g.disown(name)
	}
	return nil
}

// unchanged says whether another's ref has the value v in a file of its own,
// which goes before the packed one as long as it is there.
func (g *Guard) unchanged(name, v string) error {
	hash, peeled, _ := strings.Cut(v, "^")
	now, err := g.readRef(name)
	if err != nil || now != hash {
		return fmt.Errorf("packed-refs changes %s, which is not this agent's", name)
	}
	want := ""
	if strings.HasPrefix(name, "refs/tags/") {
		if want, err = g.peel(hash); err != nil {
			return fmt.Errorf("packed-refs has %s, which is not this agent's: %w", name, err)
		}
	}
	if peeled != want {
		return fmt.Errorf("packed-refs peels %s wrongly", name)
	}
	return nil
}

// readRef reads a ref's own file.
func (g *Guard) readRef(name string) (string, error) {
	fd, err := unix.Openat2(g.root, name, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK, Resolve: resolve})
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	b, err := io.ReadAll(io.LimitReader(stream(at{fd}), 80))
	return strings.TrimSuffix(string(b), "\n"), err
}

// peel returns what an annotated tag stands for in the end, or "" if hash is
// not a tag. It knows only objects with a file of their own: packs are git's.
func (g *Guard) peel(hash string) (string, error) {
	first := hash
	for range maxPeel {
		typ, target, err := g.looseTag(hash)
		if err != nil {
			return "", fmt.Errorf("the object of the tag cannot be looked at: %w", err)
		}
		if typ != "tag" {
			if hash == first {
				return "", nil
			}
			return hash, nil
		}
		hash = target
	}
	return "", errors.New("the tag is a tag of too many tags")
}

// looseTag returns an object's type and, of a tag, what it points to. Only
// published objects are here, so that their content is what their name says.
func (g *Guard) looseTag(hash string) (typ, target string, err error) {
	fd, err := unix.Openat2(g.root, "objects/"+hash[:2]+"/"+hash[2:],
		&unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK, Resolve: resolve})
	if err != nil {
		return "", "", err
	}
	defer unix.Close(fd)
	z, err := zlib.NewReader(stream(at{fd}))
	if err != nil {
		return "", "", err
	}
	defer z.Close()
	r := bufio.NewReader(z)
	head, err := r.ReadString(0)
	if err != nil {
		return "", "", err
	}
	if typ, _, _ = strings.Cut(head, " "); typ != "tag" {
		return typ, "", nil
	}
	line, err := r.ReadString('\n')
	if err != nil {
		return "", "", err
	}
	target, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "object ")
	if !ok || !isHash(target) {
		return "", "", errors.New("the tag names no object")
	}
	return typ, target, nil
}
