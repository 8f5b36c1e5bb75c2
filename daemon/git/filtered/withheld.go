package filtered

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"polis/daemon/git"
)

const (
	// maxWithheld bounds the file of withheld objects, in bytes. Objects beyond it have
	// no path in error messages.
	maxWithheld = 64 << 20
	// maxPatterns bounds the lines of the file for sparse checkouts.
	maxPatterns = 100_000
)

// Withheld returns, of ids, those that the store with that directory of objects withholds, with a path of each.
func Withheld(objects string, ids []string) (map[string]string, error) {
	return withheldIDs(filepath.Dir(objects), ids)
}

// WithheldAt is Withheld, with all paths of each.
func WithheldAt(objects string, ids []string) (map[string][]string, error) {
	want := map[string]bool{}
	for _, id := range ids {
		want[id] = true
	}
	out := map[string][]string{}
	err := eachWithheld(filepath.Dir(objects), func(f file) {
		if want[f.id] {
			out[f.id] = append(out[f.id], f.path)
		}
	})
	return out, err
}

// Missing returns those of ids that the store lacks, with a path of each that is withheld. What is
// not the ID of an object is left out.
func (k *Keeper) Missing(ctx context.Context, key string, ids []string) (map[string]string, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !git.IsOID(id) })
	there, err := k.Present(ctx, key, ids)
	if err != nil {
		return nil, err
	}
	held, err := Withheld(k.Objects(key), ids)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, id := range ids {
		if !there[id] {
			out[id] = held[id]
		}
	}
	return out, nil
}

func withheldIDs(dir string, ids []string) (map[string]string, error) {
	want := map[string]bool{}
	for _, id := range ids {
		want[id] = true
	}
	out := map[string]string{}
	err := eachWithheld(dir, func(f file) {
		if want[f.id] {
			out[f.id] = f.path
		}
	})
	return out, err
}

// eachWithheld reads what note wrote: "ID PATH" and NUL for each file.
func eachWithheld(dir string, each func(file)) error {
	f, err := os.Open(filepath.Join(dir, withheldFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(io.LimitReader(f, maxWithheld), 64<<10)
	for {
		rec, err := r.ReadString(0)
		if errors.Is(err, io.EOF) {
			return nil // a record that a crash cut comes again
		}
		if err != nil {
			return err
		}
		if id, path, ok := strings.Cut(strings.TrimSuffix(rec, "\x00"), " "); ok && git.IsOID(id) {
			each(file{path, id})
		}
	}
}

// note writes down what is withheld behind the first size bytes, which are good, and writes
// it down for git's sparse checkouts. It returns how many bytes are good now.
func (s *objectStore) note(held []file, size int64) (int64, error) {
	size, err := s.append(held, size)
	if err != nil {
		return 0, fmt.Errorf("note what is withheld: %w", err)
	}
	if err := s.sparse(held); err != nil {
		return 0, fmt.Errorf("write the patterns for checkouts: %w", err)
	}
	if err := s.name(held); err != nil {
		return 0, fmt.Errorf("name the files that may be asked for: %w", err)
	}
	return size, nil
}

func (s *objectStore) append(held []file, size int64) (int64, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, withheldFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil { // what a crash left
		return 0, err
	}
	if _, err := f.Seek(size, io.SeekStart); err != nil {
		return 0, err
	}
	w := bufio.NewWriter(f)
	for _, h := range held {
		n := int64(len(h.path) + len(h.id) + 2)
		if size+n > maxWithheld {
			break
		}
		size += n
		fmt.Fprintf(w, "%s %s\x00", h.id, h.path)
	}
	return size, errors.Join(w.Flush(), f.Sync())
}

// SparseFile is the file, below a directory of objects, that git of an agent reads as its
// info/sparse-checkout: what is withheld is not checked out.
const SparseFile = "info/sparse-checkout"

// ExcludeFile is the file beside it that git reads as its core.excludesFile: a withheld file
// that is no longer tracked stays in the view, and is not added again.
const ExcludeFile = "info/exclude"

// sparse adds the withheld files to it. It lists each by its name, or the
// directory in which the rules withhold everything: no pattern of git's stands for a rule.
func (s *objectStore) sparse(held []file) error {
	path := filepath.Join(s.objects(), SparseFile)
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lines := []string{"/*"}
	known := map[string]bool{"/*": true}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSuffix(line, "\n"); !known[line] {
			known[line] = true
			lines = append(lines, line)
		}
	}
	before := len(lines)
	whole := map[string]bool{}
	for _, h := range held {
		p, ok := s.pattern(h.path, whole)
		if ok && !known[p] && len(lines) < maxPatterns {
			known[p] = true
			lines = append(lines, p)
		}
	}
	if err == nil && len(lines) == before {
		return s.refreshCones() // a crash can have left them
	}
	slices.Sort(lines[1:])
	text := strings.Join(lines, "\n") + "\n"
	not := strings.ReplaceAll(strings.TrimPrefix(text, "/*\n"), "\n!", "\n")
	if err := replace(filepath.Join(s.objects(), ExcludeFile), strings.TrimPrefix(not, "!")); err != nil {
		return err
	}
	if err := replace(path, text); err != nil {
		return err
	}
	return s.refreshCones()
}

// pattern is the line for one file. whole remembers what is known of directories.
func (s *objectStore) pattern(path string, whole map[string]bool) (string, bool) {
	if strings.ContainsAny(path, "\n\r") {
		return "", false // no line can say it
	}
	none := func(dir string) bool {
		v, ok := whole[dir]
		if !ok {
			v = s.set.NothingShown(dir)
			whole[dir] = v
		}
		return v
	}
	for i, c := range path {
		if c == '/' && i > 0 && none(path[:i]) {
			return "!/" + quote(path[:i]) + "/", true
		}
	}
	// The line stands for a directory of that name, too.
	return "!/" + quote(path), s.set.NothingShown(path)
}

// quote makes a path a pattern (gitignore(5)) that matches it alone.
func quote(path string) string {
	path = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
	if n := len(strings.TrimRight(path, " \t")); n < len(path) {
		tail := path[n:]
		path = path[:n] + strings.NewReplacer(" ", `\ `, "\t", "\\\t").Replace(tail)
	}
	return path
}

// replace puts text in place at once.
func replace(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader([]byte(text)))
	err = errors.Join(err, f.Chmod(0o444), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
