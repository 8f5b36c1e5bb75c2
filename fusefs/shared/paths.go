package shared

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
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

// PathsConfig says which names of a project a view shows.
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

	mu      sync.Mutex
	checked time.Time
	stamp   [4]int64
	all     []*glob.Pattern // fixed, and then those of IncludeFile
}

// NewPaths compiles the patterns. Close gives back the descriptor.
func NewPaths(cfg PathsConfig) (*Paths, error) {
	p := &Paths{cfg: cfg, project: -1}
	for i, s := range cfg.Patterns {
		g, err := glob.Compile(s)
		if err != nil {
			return nil, fmt.Errorf("shared: path %d, %q: %w", i, s, err)
		}
		p.fixed = append(p.fixed, g)
	}
	p.all = p.fixed
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
	patterns := p.patterns()
	if len(patterns) == 0 {
		return ""
	}
	for at := 0; ; {
		i := strings.IndexByte(path[at:], '/')
		if i < 0 {
			break
		}
		if at += i; matches(patterns, path[:at], true) {
			return path[:at]
		}
		at++
	}
	if matches(patterns, path, true) || matches(patterns, path, false) {
		return path
	}
	return ""
}

// Shown says whether what the project has at top, a directory or not, is to be
// seen: a pattern names it, and it is nothing of the repository's.
func (p *Paths) Shown(top string, dir bool) bool {
	if top == "" || top == ".git" || strings.HasSuffix(top, "/.git") || !matches(p.patterns(), top, dir) {
		return false
	}
	for _, ignored := range p.cfg.Ignored {
		if !ignored(top, dir) {
			return false
		}
	}
	return true
}

func matches(patterns []*glob.Pattern, path string, dir bool) bool {
	for i := len(patterns) - 1; i >= 0; i-- {
		if patterns[i].Match(path, dir) {
			return !patterns[i].Negated()
		}
	}
	return false
}

// patterns reads IncludeFile again when it has changed. A file that cannot be
// used adds nothing.
func (p *Paths) patterns() []*glob.Pattern {
	if p.project < 0 {
		return p.fixed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.checked) >= recheck {
		p.checked = now
		p.look()
	}
	return p.all
}

func (p *Paths) look() {
	fd, err := unix.Openat2(p.project, IncludeFile, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		p.all, p.stamp = p.fixed, [4]int64{}
		return
	}
	f := os.NewFile(uintptr(fd), IncludeFile)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		p.all, p.stamp = p.fixed, [4]int64{}
		return
	}
	now := [4]int64{int64(st.Ino), st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
	if now == p.stamp {
		return
	}
	b, err := io.ReadAll(io.LimitReader(f, maxInclude+1))
	more, perr := parseInclude(b)
	if err = errors.Join(err, perr); err != nil {
		p.all, p.stamp = p.fixed, [4]int64{}
		return
	}
	p.all, p.stamp = append(p.fixed[:len(p.fixed):len(p.fixed)], more...), now
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
