package ignore

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"polis/fusefs/pathset"
	"polis/fusefs/policy/glob"
)

// Config has the tree and its owner.
type Config struct {
	// RootFD is a descriptor of the worktree below the view; New duplicates it.
	RootFD int
	// Open opens a file of the worktree with flags of open(2), if it is not simply at its path
	// below RootFD. It follows no symbolic link. May be nil.
	Open func(path string, flags int) (fd int, err error)
	// IndexPath is the worktree's index. If empty, nothing is tracked (a
	// project without git).
	IndexPath string
	// ExcludePath is info/exclude; may be empty.
	ExcludePath string
	// Outside opens IndexPath and ExcludePath with flags of open(2), each time they are read: others can exchange
	// the files and the directories that contain them. It follows no link that leads out of what the caller means.
	// If nil, nobody else can exchange the directories. May be nil.
	Outside func(path string, flags int) (fd int, err error)
	// TrackedPath is a set of paths that others track (package pathset): those are
	// never exempt. May be empty; a file that is not there says nothing.
	TrackedPath string
	// Recheck is how long a file that was read counts as unchanged.
	// An answer is at most twice as old. Zero means 100 ms, negative means not
	// at all.
	Recheck time.Duration
	// OnTooLarge, if not nil, is called when a file is not read because it exceeds a
	// bound, once for each version of the file, on the goroutine of the caller. path is
	// relative to the worktree, or absolute for a file that is not in it. The error wraps ErrTooLarge.
	OnTooLarge func(path string, err error)
}

// ErrTooLarge reports that a file of rules, or the index, is larger than what is read.
var ErrTooLarge = errors.New("it is too large to be read")

const (
	defaultRecheck = 100 * time.Millisecond
	// maxIgnoreFile and maxIndex bound what is read, in bytes.
	maxIgnoreFile = 256 << 10
	maxIndex      = 128 << 20
	// maxDirs bounds the remembered directories.
	maxDirs = 8192
	// maxWeight bounds the memory of all patterns that are remembered, in bytes,
	// counted as patternSize for each, textSize for each of their bytes and
	// sourceSize for each file.
	maxWeight   = 48 << 20
	patternSize = 256
	textSize    = 24
	sourceSize  = 256
	// maxMemo bounds the remembered answers.
	maxMemo = 8192
)

// Matcher answers for one worktree. It is safe for concurrent use.
type Matcher struct {
	root    int
	cfg     Config
	started time.Time

	mu    sync.RWMutex
	dirs  map[string]*source // .gitignore of each directory asked about
	files map[stamp]*source  // the same by file, those that are one
	heavy int64              // the weight of files
	extra *source            // info/exclude
	index *source
	set   *source // of TrackedPath

	memoMu sync.RWMutex
	memo   map[memoKey]answer
}

// New makes a matcher; Close gives back its descriptor.
func New(cfg Config) (*Matcher, error) {
	fd, err := unix.FcntlInt(uintptr(cfg.RootFD), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("ignore: duplicate root: %w", err)
	}
	if cfg.Recheck == 0 {
		cfg.Recheck = defaultRecheck
	}
	return &Matcher{root: fd, cfg: cfg, started: time.Now(), dirs: map[string]*source{}, files: map[stamp]*source{}, memo: map[memoKey]answer{}}, nil
}

// Close releases the descriptor. The matcher must not be used any more.
func (m *Matcher) Close() error { return unix.Close(m.root) }

// Exempt reports whether git ignores the path and tracks neither it nor anything
// below it. dir reports whether it is a directory.
func (m *Matcher) Exempt(path string, dir bool) bool {
	if path == "" {
		return false
	}
	if foreign(path) {
		return true
	}
	if m.cfg.Recheck < 0 {
		return m.exempt(path, dir)
	}
	k, now := memoKey{path, dir}, m.now()
	m.memoMu.RLock()
	a, ok := m.memo[k]
	m.memoMu.RUnlock()
	if ok && now-a.at < m.cfg.Recheck {
		return a.exempt
	}
	a = answer{m.exempt(path, dir), now}
	k.path = strings.Clone(path) // it may be part of a request buffer
	m.memoMu.Lock()
	defer m.memoMu.Unlock()
	if len(m.memo) >= maxMemo {
		clear(m.memo)
	}
	m.memo[k] = a
	return a.exempt
}

// Untracked reports whether git tracks nothing at the path. What is not known counts
// as tracked.
func (m *Matcher) Untracked(path string) bool {
	t := m.tracked()
	return t != nil && !t.has(path) && !m.others(path, false)
}

// Others reports whether the target or an agent's branch tracks the path. What is not known counts as tracked.
func (m *Matcher) Others(path string) bool { return m.others(path, false) }

func (m *Matcher) exempt(path string, dir bool) bool {
	if !m.Ignored(path, dir) {
		return false
	}
	if m.others(path, dir) {
		return false
	}
	if m.cfg.IndexPath == "" {
		return true
	}
	t := m.tracked()
	return t != nil && !t.has(path) && !(dir && t.below(path))
}

// others reports whether the target or an agent's branch tracks the path, or something
// below the directory. What cannot be read counts as tracked.
func (m *Matcher) others(path string, dir bool) bool {
	if m.cfg.TrackedPath == "" {
		return false
	}
	f := m.outside(&m.set, m.cfg.TrackedPath, nil, pathset.MaxSize, parseSet)
	switch {
	case f.bad:
		return true
	case f.set == nil:
		return false
	}
	return f.set.Has(path) || dir && f.set.Below(path)
}

// memoKey and answer remember what was said within Recheck: a program that
// writes often asks about the same file.
type memoKey struct {
	path string
	dir  bool
}

type answer struct {
	exempt bool
	at     time.Duration
}

// foreign reports whether the path is, or lies in, the .git of a repository inside
// the worktree: git cannot track such names.
func foreign(path string) bool {
	const git = "/.git"
	for {
		i := strings.Index(path, git)
		if i < 0 {
			return false
		}
		path = path[i+len(git):]
		if path == "" || path[0] == '/' {
			return true
		}
	}
}

// Ignored reports whether git ignores the path (gitignore(5)): the first
// directory on the way, or else the path itself, that the last pattern of the
// nearest file excludes.
func (m *Matcher) Ignored(path string, dir bool) bool {
	var buf [32]*source
	files := buf[:0]
	for at := 0; ; {
		f := m.gitignore(strings.TrimSuffix(path[:at], "/"))
		if f.bad {
			return false // rules we cannot see may negate it
		}
		files = append(files, f)
		next := strings.IndexByte(path[at:], '/')
		if next < 0 {
			return m.decide(path, dir, files)
		}
		if m.decide(path[:at+next], true, files) {
			return true // nothing below an excluded directory comes back
		}
		at += next + 1
	}
}

// decide asks the files of all levels, the nearest first, and info/exclude last.
func (m *Matcher) decide(path string, dir bool, files []*source) bool {
	end := len(path)
	for i := len(files) - 1; i >= 0; i-- {
		base := 0
		if slash := strings.LastIndexByte(path[:end], '/'); slash >= 0 {
			base, end = slash+1, slash
		}
		if ignored, ok := last(files[i].patterns, path[base:], dir); ok {
			return ignored
		}
	}
	if m.cfg.ExcludePath == "" {
		return false
	}
	f := m.exclude()
	if f.bad {
		return false
	}
	ignored, _ := last(f.patterns, path, dir)
	return ignored
}

// last finds the last pattern that names the path.
func last(patterns []*glob.Pattern, path string, dir bool) (ignored, ok bool) {
	for i := len(patterns) - 1; i >= 0; i-- {
		if patterns[i].Match(path, dir) {
			return !patterns[i].Negated(), true
		}
	}
	return false, false
}

func (m *Matcher) now() time.Duration { return time.Since(m.started) }
