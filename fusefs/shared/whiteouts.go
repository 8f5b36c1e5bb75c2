package shared

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// maxWhiteouts bounds the remembered names, and so the journal.
const maxWhiteouts = 1 << 20

// Whiteouts is the set of names of the project that one agent removed or replaced
// for itself. A name in it covers everything below. It is kept in a journal,
// one quoted path a line: what a killed process had added is there.
type Whiteouts struct {
	mu  sync.RWMutex
	set map[string]struct{}
	f   *os.File
}

// OpenWhiteouts reads the journal at path, which is made if it is not there, and
// writes it again without what it repeats. A line that was not written to its end
// is dropped.
func OpenWhiteouts(path string) (*Whiteouts, error) {
	g := &Whiteouts{set: map[string]struct{}{}}
	if err := g.read(path); err != nil {
		return nil, fmt.Errorf("shared: read %s: %w", path, err)
	}
	if err := g.rewrite(path); err != nil {
		return nil, fmt.Errorf("shared: write %s: %w", path, err)
	}
	return g, nil
}

func (g *Whiteouts) read(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 64<<10)
	for s.Scan() {
		name, err := strconv.Unquote(s.Text())
		if err != nil || !filepath.IsLocal(name) {
			continue
		}
		if len(g.set) >= maxWhiteouts {
			return ErrFull
		}
		g.set[name] = struct{}{}
	}
	return s.Err()
}

func (g *Whiteouts) rewrite(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".gone-*")
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for name := range g.set {
		if g.covered(parent(name)) {
			delete(g.set, name)
			continue
		}
		if _, err = w.WriteString(strconv.Quote(name) + "\n"); err != nil {
			break
		}
	}
	if err = errors.Join(err, w.Flush()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	g.f = f
	return nil
}

// Has reports whether path, or a directory it lies in, is gone.
func (g *Whiteouts) Has(path string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.set) > 0 && g.covered(path)
}

func (g *Whiteouts) covered(path string) bool {
	for ; path != ""; path = parent(path) {
		if _, ok := g.set[path]; ok {
			return true
		}
	}
	return false
}

// Add remembers that path is gone. When it returns nil the journal has it.
func (g *Whiteouts) Add(path string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.covered(path) {
		return nil
	}
	if len(g.set) >= maxWhiteouts {
		return ErrFull
	}
	if _, err := g.f.WriteString(strconv.Quote(path) + "\n"); err != nil {
		return fmt.Errorf("shared: remember that %s is gone: %w", path, err)
	}
	g.set[strings.Clone(path)] = struct{}{}
	return nil
}

// Close closes the journal.
func (g *Whiteouts) Close() error { return g.f.Close() }

// parent is the directory a path lies in; the root's is "".
func parent(path string) string {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)]
}
