package worktree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
	"polis/daemon/git/lfs"
)

// maxHashed bounds the content that is compared with pointers for one status, in bytes.
const maxHashed = 8 << 30

// smudged takes the files out of a status whose content is the LFS object that the index names. The git of polis runs no
// filter: for it, such a file is changed if the index is as old as the file (racy-git in git's technical documentation).
func (w *Workspace) smudged(ctx context.Context, agent string, v View, out []byte) ([]byte, error) {
	type entry struct{ at, id, path string }
	var changed []entry
	ids := map[string]bool{}
	fields := git.SplitNUL(out)
	for _, line := range fields {
		// "1 .M N... <mode HEAD> <mode index> <mode worktree> <id HEAD> <id index> <path>"
		f := strings.SplitN(line, " ", 9)
		if len(f) == 9 && f[0] == "1" && f[1] == ".M" && f[4] == f[5] && git.IsOID(f[7]) {
			changed = append(changed, entry{line, f[7], f[8]})
			ids[f[7]] = true
		}
	}
	if len(changed) == 0 {
		return out, nil
	}
	pointers, err := w.pointersOf(ctx, w.of(agent), ids)
	if err != nil || len(pointers) == 0 {
		return out, err
	}
	root, err := w.lower(agent, v)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	clean, same := map[string]string{}, map[string]lfs.Pointer{} // objects by line, pointers by object
	left := int64(maxHashed)
	for _, e := range changed {
		p, ok := pointers[e.id]
		if !ok || p.Size > left {
			continue
		}
		left -= p.Size
		is, err := isObject(ctx, root, e.path, p)
		if err != nil {
			return nil, err
		}
		if is {
			clean[e.at], same[p.OID] = p.OID, p
		}
	}
	there, err := w.lfsThere(ctx, agent, same)
	if err != nil {
		return nil, err
	}
	fields = slices.DeleteFunc(fields, func(line string) bool { return there[clean[line]] })
	return []byte(strings.Join(append(fields, ""), "\x00")), nil
}

// lfsThere returns the objects of pointers that an agent or the project has. An agent that has only checked out what the
// project has may have none of its own. A file whose object nobody has, or has with other content, is the only copy of it.
func (w *Workspace) lfsThere(ctx context.Context, agent string, pointers map[string]lfs.Pointer) (map[string]bool, error) {
	there := map[string]bool{}
	look := func(dir *os.File) error {
		for _, p := range pointers {
			if there[p.OID] {
				continue
			}
			has, err := isObject(ctx, dir, lfs.Path(p.OID), p)
			if err != nil {
				return err
			}
			there[p.OID] = has
		}
		return nil
	}
	own, err := w.ownData(agent, lfsObjects)
	if err == nil {
		err = errors.Join(look(own), own.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	p, err := w.Project(ctx)
	if err != nil || p == nil {
		return there, nil //nolint:nilerr // nothing is known to be there
	}
	if err := p.openLFS(p.lfsDir(ctx), false, look); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return there, nil
}

// isObject reports whether the content of a file is an LFS object.
func isObject(ctx context.Context, root *os.File, name string, p lfs.Pointer) (bool, error) {
	f, err := openBelow(root, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW)
	if err != nil {
		return false, gone(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() || fi.Size() != p.Size {
		return false, err
	}
	sum := sha256.New()
	for rest := p.Size; rest > 0 && ctx.Err() == nil; rest -= min(rest, 4<<20) {
		if _, err := io.CopyN(sum, f, min(rest, 4<<20)); err != nil {
			return false, nil //nolint:nilerr // it became shorter
		}
	}
	return hex.EncodeToString(sum.Sum(nil)) == p.OID, context.Cause(ctx)
}
