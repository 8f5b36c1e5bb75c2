package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// FileKey is the key of a file of the repository. A file may be called "repo:exclusive" or
// "ref:refs/heads/main"; without this spelling an agent could take the lock of that name by
// touching the file.
func FileKey(path string) string {
	if strings.HasPrefix(path, RefPrefix) || strings.HasPrefix(path, "repo:") {
		return "./" + path
	}
	return path
}

// FilePath is the path of the file that FileKey made key of.
func FilePath(key string) string { return strings.TrimPrefix(key, "./") }

// RefKey is the key of a ref, given by its full name.
func RefKey(ref string) string { return RefPrefix + ref }

// place is where a key lives: in the tree of files or in that of refs, at rel.
// Exclusive is the whole tree of refs.
type place struct {
	refs bool
	rel  string
	tree bool
}

func placeOf(path string, tree bool) place {
	switch {
	case path == Exclusive:
		return place{refs: true, tree: true}
	case strings.HasPrefix(path, RefPrefix):
		return place{refs: true, rel: path[len(RefPrefix):], tree: tree}
	case strings.HasPrefix(path, "./"):
		return place{rel: path[2:], tree: tree}
	}
	return place{rel: path, tree: tree}
}

// overlap reports whether two places have a path in common.
func (p place) overlap(q place) bool {
	if p.refs != q.refs {
		return false
	}
	return p.rel == q.rel || p.tree && below(p.rel, q.rel) || q.tree && below(q.rel, p.rel)
}

// below reports whether p is strictly below dir; everything is below "".
func below(dir, p string) bool {
	if dir == "" {
		return p != ""
	}
	return len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir
}

func conflicting(a, b Mode) bool { return a == Write || b == Write }

// CheckPath rejects a key that is not in its one canonical spelling: two spellings of one path
// would be two leases.
func CheckPath(path string) error {
	if len(path) > MaxPath {
		return fmt.Errorf("%w: path of %d bytes", ErrInvalid, len(path))
	}
	if strings.IndexByte(path, 0) >= 0 {
		return fmt.Errorf("%w: path %q contains NUL", ErrInvalid, path)
	}
	if path == "" || path == Exclusive {
		return nil
	}
	if strings.HasPrefix(path, "repo:") {
		return fmt.Errorf("%w: unknown repository lock %q", ErrInvalid, path)
	}
	if strings.HasPrefix(path, "./") && FileKey(path[2:]) != path {
		return fmt.Errorf("%w: path %q is not clean", ErrInvalid, path)
	}
	for rest, more := placeOf(path, false).rel, true; more; {
		var c string
		c, rest, more = strings.Cut(rest, "/")
		if c == "" || c == "." || c == ".." {
			return fmt.Errorf("%w: path %q is not clean and relative", ErrInvalid, path)
		}
	}
	return nil
}

// CheckName rejects names that no agent or holder may have.
func CheckName(what, name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("%w: %s of %d bytes", ErrInvalid, what, len(name))
	}
	for _, r := range name {
		if r <= ' ' || r == 0x7f || r == 0xfffd {
			return fmt.Errorf("%w: %s %q", ErrInvalid, what, name)
		}
	}
	return nil
}

// normalise checks keys and returns them sorted, each path once with the union of what was
// requested for it.
func normalise(keys []Key) ([]Key, error) {
	if len(keys) == 0 || len(keys) > MaxKeys {
		return nil, fmt.Errorf("%w: %d keys", ErrInvalid, len(keys))
	}
	for _, k := range keys {
		if err := CheckPath(k.Path); err != nil {
			return nil, err
		}
		if k.Mode != Read && k.Mode != Write {
			return nil, fmt.Errorf("%w: mode %q", ErrInvalid, k.Mode)
		}
		if k.Wait < 0 {
			return nil, fmt.Errorf("%w: negative wait", ErrInvalid)
		}
	}
	if len(keys) == 1 {
		return keys, nil
	}
	out := slices.Clone(keys)
	slices.SortStableFunc(out, func(a, b Key) int { return cmp.Compare(a.Path, b.Path) })
	n := 0
	for _, k := range out[1:] {
		last := &out[n]
		if last.Path != k.Path {
			n++
			out[n] = k
			continue
		}
		last.Tree = last.Tree || k.Tree
		last.Merge, last.Keep = last.Merge || k.Merge, max(last.Keep, k.Keep)
		last.Wait = min(last.Wait, k.Wait)
		if k.Mode == Write {
			last.Mode = Write
		}
	}
	return out[:n+1], nil
}

func (r *Request) check() error {
	if r.Workspace == "" || len(r.Workspace) > MaxPath || strings.IndexByte(r.Workspace, 0) >= 0 {
		return fmt.Errorf("%w: workspace %q", ErrInvalid, clip(r.Workspace))
	}
	if err := CheckName("holder", r.Holder); err != nil {
		return err
	}
	if len(r.Reason) > MaxReason || len(r.Op) > MaxName {
		return fmt.Errorf("%w: reason or operation too long", ErrInvalid)
	}
	if r.For < 0 {
		return fmt.Errorf("%w: negative duration", ErrInvalid)
	}
	keys, err := normalise(r.Keys)
	if err != nil {
		return err
	}
	r.Keys = keys
	return nil
}

func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}
