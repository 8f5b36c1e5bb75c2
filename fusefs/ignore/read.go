package ignore

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"polis/fusefs/pathset"
)

func (m *Matcher) gitignore(dir string) *source {
	m.mu.RLock()
	f := m.dirs[dir]
	m.mu.RUnlock()
	if f.fresh(m.now(), m.cfg.Recheck) {
		return f
	}
	name := ".gitignore"
	if dir != "" {
		name = dir + "/.gitignore"
	}
	old := f
	f = m.load(old, name, func() (int, error) {
		const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY
		if m.cfg.Open != nil {
			return m.cfg.Open(name, flags)
		}
		return unix.Openat2(m.root, name, &unix.OpenHow{
			Flags:   flags,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
	}, maxIgnoreFile, parseRules)
	m.refused(name, old, f)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remember(strings.Clone(dir), f)
	return f
}

// refused reports a file that has become too large.
func (m *Matcher) refused(path string, old, f *source) {
	if m.cfg.OnTooLarge == nil || f == old || !errors.Is(f.err, ErrTooLarge) {
		return
	}
	// A file is read again while its times may hide a change, and when it was forgotten.
	if old != nil && old.stamp == f.stamp && errors.Is(old.err, ErrTooLarge) {
		return
	}
	m.cfg.OnTooLarge(strings.Clone(path), f.err)
}

// remember keeps what a directory's file says, within bounds: what is forgotten
// is read again. The caller holds mu.
func (m *Matcher) remember(dir string, f *source) {
	var weight int64
	if other := m.files[f.stamp]; other != nil && !f.racy {
		f.patterns = other.patterns
	} else if !f.absent {
		weight = f.weight()
	}
	if len(m.dirs) >= maxDirs || m.heavy+weight > maxWeight {
		clear(m.dirs)
		clear(m.files)
		m.heavy, weight = 0, f.weight()
	}
	m.dirs[dir] = f
	m.heavy += weight
	if weight > 0 && !f.racy {
		m.files[f.stamp] = f
	}
}

func (m *Matcher) exclude() *source {
	return m.outside(&m.extra, m.cfg.ExcludePath, m.cfg.Outside, maxIgnoreFile, parseRules)
}

// tracked returns the index's paths, or nil if they are not known.
func (m *Matcher) tracked() *tracked {
	f := m.outside(&m.index, m.cfg.IndexPath, m.cfg.Outside, maxIndex, parseTracked)
	if f.bad || f.absent {
		return nil
	}
	return f.tracked
}

// outside reads a file that is not in the tree. A link in its place is not
// followed.
func (m *Matcher) outside(slot **source, path string, open func(string, int) (int, error), limit int64, parse func(*source, []byte)) *source {
	m.mu.RLock()
	f := *slot
	m.mu.RUnlock()
	if f.fresh(m.now(), m.cfg.Recheck) {
		return f
	}
	old := f
	f = m.load(old, path, func() (int, error) {
		const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY
		if open != nil {
			return open(path, flags)
		}
		return unix.Open(path, flags, 0)
	}, limit, parse)
	if errors.Is(f.err, unix.ELOOP) {
		f.bad = true
	}
	m.refused(path, old, f)
	m.mu.Lock()
	defer m.mu.Unlock()
	*slot = f
	return f
}

func parseRules(f *source, b []byte) {
	patterns, ok := parse(b)
	f.patterns, f.bad = patterns, !ok
	if !ok {
		f.err = fmt.Errorf("%w: it has more than %d patterns", ErrTooLarge, maxLines)
	}
}

// parseTracked tries both hashes: the index does not say which one it has.
func parseTracked(f *source, b []byte) {
	t, err := parseIndex(b, 20)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		t, err = parseIndex(b, 32)
	}
	f.tracked, f.err, f.bad = t, err, err != nil
}

func parseSet(f *source, b []byte) {
	f.set, f.err = pathset.Parse(b)
	f.bad = f.err != nil
}
