package shared

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"polis/fusefs/policy/glob"
)

// IncludeFile names more files to show, and with a leading "!" fewer, in a
// project's root directory. The patterns are those of gitignore(5).
const IncludeFile = ".worktreeinclude"

const (
	// maxInclude and maxPatterns bound IncludeFile, in bytes and lines.
	maxInclude  = 64 << 10
	maxPatterns = 1000
	// recheck is how old an answer about IncludeFile may be.
	recheck = time.Second
)

// PathsConfig selects the names of a project that a view shows.
type PathsConfig struct {
	// Patterns name them, as in gitignore(5); the last that matches decides.
	Patterns []string
	// Project is a descriptor of the checkout, to read IncludeFile from; it is
	// duplicated. -1 reads none.
	Project int
	// Ignored are all asked about a name; it is shown if each says that git
	// ignores it and tracks nothing of it. What git would offer to commit, there
	// or here, is never brought in.
	Ignored []func(path string, dir bool) bool
}

// Paths decides which names of a project a view shows.
type Paths struct {
	cfg     PathsConfig
	fixed   []*glob.Pattern
	project int
	started time.Time

	now     atomic.Pointer[rules]
	checked atomic.Int64 // when IncludeFile was read, since started

	mu    sync.Mutex // look
	stamp [4]int64

	seen atomic.Pointer[rules] // that Changed has reported
}

// rules are the patterns in force, and a quick way to see that none can match: every name on the
// way to every file is checked.
type rules struct {
	all   []*glob.Pattern // fixed, and then those of IncludeFile
	first [256]bool       // bytes with which a name that matches can begin
}

func newRules(all []*glob.Pattern) *rules {
	r := &rules{all: all}
	for _, p := range all {
		s := strings.TrimPrefix(p.String(), "!")
		s = strings.TrimRight(s, "/")
		s = s[strings.LastIndexByte(s, '/')+1:]
		if s == "" || strings.IndexByte(`*?[\`, s[0]) >= 0 {
			for i := range r.first {
				r.first[i] = true
			}
			break
		}
		r.first[s[0]] = true
	}
	return r
}

func (r *rules) may(path string, from int) bool { return from < len(path) && r.first[path[from]] }

// NewPaths compiles the patterns. Close gives back the descriptor.
func NewPaths(cfg PathsConfig) (*Paths, error) {
	p := &Paths{cfg: cfg, project: -1, started: time.Now()}
	p.checked.Store(-int64(recheck))
	for i, s := range cfg.Patterns {
		g, err := glob.Compile(s)
		if err != nil {
			return nil, fmt.Errorf("shared: path %d, %q: %w", i, s, err)
		}
		p.fixed = append(p.fixed, g)
	}
	p.now.Store(newRules(p.fixed))
	p.seen.Store(p.now.Load())
	if cfg.Project >= 0 {
		fd, err := unix.FcntlInt(uintptr(cfg.Project), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, fmt.Errorf("shared: duplicate the project's directory: %w", err)
		}
		p.project = fd
	}
	return p, nil
}

// Close releases the descriptor.
func (p *Paths) Close() error {
	if p.project < 0 {
		return nil
	}
	return unix.Close(p.project)
}

// Top is the name at or above path that the patterns bring in, "" if none. A
// pattern for directories matches here whatever the name is; see Shown.
func (p *Paths) Top(path string) string {
	r := p.rules()
	at := 0
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		if r.may(path, at) && matches(r.all, path[:i], true) {
			return path[:i]
		}
		at = i + 1
	}
	if r.may(path, at) && (matches(r.all, path, true) || matches(r.all, path, false)) {
		return path
	}
	return ""
}

// Shown reports whether what the project has at top, a directory or not, is to be
// seen: a pattern names it, and it is nothing of the repository's.
func (p *Paths) Shown(top string, dir bool) bool {
	if top == "" || strings.Contains("/"+top+"/", "/.git/") || !matches(p.rules().all, top, dir) {
		return false
	}
	for _, ignored := range p.cfg.Ignored {
		if !ignored(top, dir) {
			return false
		}
	}
	return true
}

// Changed reports whether other patterns are in force than when it was last called. It reads
// IncludeFile again when it may have changed, at most once a second.
func (p *Paths) Changed() bool {
	now := p.rules()
	return p.seen.Swap(now) != now
}

func matches(patterns []*glob.Pattern, path string, dir bool) bool {
	for i := len(patterns) - 1; i >= 0; i-- {
		if patterns[i].Match(path, dir) {
			return !patterns[i].Negated()
		}
	}
	return false
}

// rules reads IncludeFile again when it may have changed. A file that cannot be
// used adds nothing.
func (p *Paths) rules() *rules {
	if p.project < 0 {
		return p.now.Load()
	}
	now, last := int64(time.Since(p.started)), p.checked.Load()
	if now-last >= int64(recheck) && p.checked.CompareAndSwap(last, now) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.look()
	}
	return p.now.Load()
}

func (p *Paths) look() {
	fd, err := unix.Openat2(p.project, IncludeFile, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		p.none()
		return
	}
	f := os.NewFile(uintptr(fd), IncludeFile)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		p.none()
		return
	}
	now := [4]int64{int64(st.Ino), st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
	if now == p.stamp {
		return
	}
	b, err := io.ReadAll(io.LimitReader(f, maxInclude+1))
	more, perr := parseInclude(b)
	if err = errors.Join(err, perr); err != nil {
		p.none()
		return
	}
	p.stamp = now
	p.now.Store(newRules(append(p.fixed[:len(p.fixed):len(p.fixed)], more...)))
}

// none goes back to the patterns that hold without an IncludeFile.
func (p *Paths) none() {
	if p.stamp != [4]int64{} {
		p.stamp = [4]int64{}
		p.now.Store(newRules(p.fixed))
	}
}

// parseInclude reads the lines of an IncludeFile; lines that are no pattern are
// passed over.
func parseInclude(b []byte) ([]*glob.Pattern, error) {
	if len(b) > maxInclude {
		return nil, fmt.Errorf("%s has more than %d bytes", IncludeFile, maxInclude)
	}
	var out []*glob.Pattern
	for line := range bytes.Lines(b) {
		s := strings.TrimRight(string(line), "\r\n \t")
		if s == "" || strings.HasPrefix(s, "#") {
			continue
		}
		g, err := glob.Compile(s)
		if err != nil {
			continue
		}
		if out = append(out, g); len(out) > maxPatterns {
			return nil, fmt.Errorf("%s has more than %d patterns", IncludeFile, maxPatterns)
		}
	}
	return out, nil
}
