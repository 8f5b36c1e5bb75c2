package nested

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Refs are the commits that a repository's refs name.
type Refs struct {
	// Head is the commit that is checked out; "" on a branch without commits.
	Head string
	// Local are those of HEAD, of branches, the stash, other worktrees and all other refs of the repository's user.
	Local []string
	// Fetched are those of remote-tracking refs, of remotes that are reached by a network. What such a ref names
	// is also there. A remote on the same machine can end with the agent: it proves nothing.
	Fetched []string
}

// All returns every commit that a ref names.
func (r Refs) All() []string { return append(slices.Clone(r.Local), r.Fetched...) }

// ReadRefs reads the refs of the git directory dir.
func ReadRefs(dir *os.File) (Refs, error) {
	r, err := readRefs(dir)
	if err != nil {
		return Refs{}, fmt.Errorf("read its refs: %w", err)
	}
	return r, nil
}

func readRefs(dir *os.File) (Refs, error) {
	// Refs in another format would be missed.
	switch t, err := kind(dir, "reftable"); {
	case err != nil:
		return Refs{}, err
	case t != fs.ModeIrregular:
		return Refs{}, fmt.Errorf("it has a reftable: %w", ErrOdd)
	}
	all := map[string]string{}
	packed, err := readPacked(dir, all)
	if err != nil {
		return Refs{}, err
	}
	if err := readLoose(dir, "refs", 0, all, packed); err != nil {
		return Refs{}, err
	}
	var r Refs
	if r.Head, err = readHead(dir, "HEAD", all); err != nil {
		return Refs{}, err
	}
	heads := []string{r.Head}
	others, err := otherHeads(dir, all)
	if err != nil {
		return Refs{}, err
	}
	heads = append(heads, others...)
	config, err := read(dir, "config", maxText)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Refs{}, err
	}
	far := networkRemotes(string(config))
	for name, id := range all {
		remote, tracking := strings.CutPrefix(name, "refs/remotes/")
		switch {
		case tracking && fetched(remote, far):
			r.Fetched = append(r.Fetched, id)
		// A clone packs the tags that it fetches. Their commits are on branches of the remote in most cases, and
		// a tag that the user made is a file of its own.
		case packed[name] && strings.HasPrefix(name, "refs/tags/"):
		default:
			heads = append(heads, id)
		}
	}
	for _, id := range heads {
		if id != "" {
			r.Local = append(r.Local, id)
		}
	}
	slices.Sort(r.Local)
	r.Local = slices.Compact(r.Local)
	return r, nil
}

// fetched reports whether a name below refs/remotes is of one of the remotes.
func fetched(name string, remotes []string) bool {
	return slices.ContainsFunc(remotes, func(r string) bool { return strings.HasPrefix(name, r+"/") })
}

// readPacked reads packed-refs into all. It returns the names in it.
func readPacked(dir *os.File, all map[string]string) (map[string]bool, error) {
	text, err := read(dir, "packed-refs", maxPacked)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	packed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		id, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "^") {
			continue
		}
		if !ok || !isID(id) {
			return nil, fmt.Errorf("a line of packed-refs is no ref: %w", ErrOdd)
		}
		all[name], packed[name] = id, true
	}
	return packed, nil
}

// readLoose reads the refs below a directory into all. A file replaces what packed has of that name.
func readLoose(dir *os.File, name string, depth int, all map[string]string, packed map[string]bool) error {
	if depth > maxDepth {
		return fmt.Errorf("%q is too deep: %w", name, ErrOdd)
	}
	d, err := OpenDir(dir, name)
	if err != nil {
		return err
	}
	defer d.Close()
	list, err := names(d)
	if err != nil {
		return err
	}
	for _, e := range list {
		at := path.Join(name, e.Name())
		switch {
		case e.IsDir():
			err = readLoose(dir, at, depth+1, all, packed)
		case strings.HasSuffix(at, ".lock"):
		case len(all) > maxNames:
			err = fmt.Errorf("it has more than %d refs: %w", maxNames, ErrOdd)
		default:
			var text []byte
			if text, err = read(dir, at, maxText); err != nil {
				break
			}
			id := strings.TrimSpace(string(text))
			if strings.HasPrefix(id, "ref: ") {
				continue // what it names is read by its own name
			}
			if !isID(id) {
				return fmt.Errorf("%q is no ref: %w", at, ErrOdd)
			}
			all[at] = id
			delete(packed, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readHead returns the commit that a file like HEAD names; "" for a branch without commits.
func readHead(dir *os.File, name string, all map[string]string) (string, error) {
	text, err := read(dir, name, maxText)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(text))
	if ref, symbolic := strings.CutPrefix(id, "ref: "); symbolic {
		return all[strings.TrimSpace(ref)], nil
	}
	if !isID(id) {
		return "", fmt.Errorf("%s names no commit: %w", name, ErrOdd)
	}
	return id, nil
}

// otherHeads returns the commits that the linked worktrees of the repository are on.
func otherHeads(dir *os.File, all map[string]string) (ids []string, err error) {
	d, err := OpenDir(dir, "worktrees")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	list, err := names(d)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		id, err := readHead(dir, path.Join("worktrees", e.Name(), "HEAD"), all)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// isID reports whether s is an object id in hexadecimal.
func isID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}
