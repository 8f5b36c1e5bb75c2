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

// maxPeel is the longest chain of tags of tags.
const maxPeel = 8

// checkPacked accepts a new packed-refs that differs from the old one only in the agent's refs, or
// that contains the present values of others' refs (git pack-refs). The process that replaces the
// file holds packed-refs.lock, so no other replaces it in between.
func (g *Guard) checkPacked(ctx context.Context, a at) error {
	if !g.valid("packed-refs.lock") {
		return errors.New("packed-refs may be replaced only by the holder of packed-refs.lock")
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
		// git packs no such name, and dies at one that leads out of its directory.
		if !refFormat(name) {
			return fmt.Errorf("packed-refs has %q, which is no name of a ref", name)
		}
		if privateRef(name) {
			return fmt.Errorf("packed-refs is shared, and %s is only this agent's: git pack-refs without --all leaves it", name)
		}
		if g.owns(name) {
			// The ref's own file was checked when it was made.
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

// unchanged checks that another agent's ref has the value v in its own file, which takes
// precedence over packed-refs.
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

// peel returns the object that an annotated tag finally refers to, or "" if hash is not a tag. It
// reads only loose objects.
func (g *Guard) peel(hash string) (string, error) {
	first := hash
	for range maxPeel {
		typ, target, err := g.looseTag(hash)
		if err != nil {
			return "", fmt.Errorf("the object of the tag cannot be read: %w", err)
		}
		if typ != "tag" {
			if hash == first {
				return "", nil
			}
			return hash, nil
		}
		hash = target
	}
	return "", errors.New("the chain of tags of tags is too long")
}

// looseTag returns an object's type and, for a tag, its target. Only published objects are here,
// so their content matches their name.
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
