package glob

import (
	"errors"
	"strings"
)

// The ways a pattern can be wrong.
var (
	ErrEmpty      = errors.New("empty pattern")
	ErrBracket    = errors.New("unclosed or malformed [ ]")
	ErrBackslash  = errors.New("trailing backslash")
	ErrComponents = errors.New("empty, . or .. component")
	ErrNUL        = errors.New("NUL byte")
	ErrTooLong    = errors.New("longer than 4096 bytes")
)

// MaxLen is the longest pattern accepted, in bytes (PATH_MAX).
const MaxLen = 4096

type segKind uint8

const (
	literal segKind = iota // the component is exactly text
	wild                   // text is a wildmatch pattern of one component
	any                    // text is "*": every component
	deep                   // "**": any number of components
)

type segment struct {
	kind segKind
	text string
}

// Pattern is one compiled line. It is immutable.
type Pattern struct {
	segs    []segment // begins with deep if the pattern is not anchored
	dirOnly bool
	negated bool
	source  string
}

// Compile compiles a gitignore pattern, without comment and trailing-space
// rules (those belong to the file, not to the pattern).
func Compile(source string) (*Pattern, error) {
	p := &Pattern{source: source}
	s := source
	if len(s) > MaxLen {
		return nil, ErrTooLong
	}
	if strings.IndexByte(s, 0) >= 0 {
		return nil, ErrNUL
	}
	if strings.HasPrefix(s, "!") {
		p.negated, s = true, s[1:]
	}
	if strings.HasSuffix(s, "/") {
		p.dirOnly, s = true, s[:len(s)-1]
	}
	anchored := strings.Contains(s, "/")
	s = strings.TrimPrefix(s, "/")
	if s == "" {
		return nil, ErrEmpty
	}
	if !anchored {
		p.segs = append(p.segs, segment{kind: deep})
	}
	for text := range strings.SplitSeq(s, "/") {
		seg, err := compileSegment(text)
		if err != nil {
			return nil, err
		}
		if n := len(p.segs); seg.kind == deep && n > 0 && p.segs[n-1].kind == deep {
			continue // "**/**" says no more than "**"; and bare "**" is "any name at any depth"
		}
		p.segs = append(p.segs, seg)
	}
	return p, nil
}

func compileSegment(text string) (segment, error) {
	switch text {
	case "", ".", "..":
		return segment{}, ErrComponents
	case "*":
		return segment{any, text}, nil
	}
	if strings.Trim(text, "*") == "" {
		return segment{deep, text}, nil // two stars or more, as wildmatch has it
	}
	if !strings.ContainsAny(text, `*?[\`) {
		return segment{literal, text}, nil
	}
	if err := checkComponent(text); err != nil {
		return segment{}, err
	}
	return segment{wild, text}, nil
}

// String returns the pattern as it was written.
func (p *Pattern) String() string { return p.source }

// Negated reports whether the pattern began with "!".
func (p *Pattern) Negated() bool { return p.negated }

// DirOnly reports whether the pattern ended with "/".
func (p *Pattern) DirOnly() bool { return p.dirOnly }

// Match reports whether the pattern names exactly this path. dir reports whether
// the path is a directory. This is git's question for one .gitignore line.
func (p *Pattern) Match(path string, dir bool) bool {
	if p.dirOnly && !dir {
		return false
	}
	if len(p.segs) == 2 && p.segs[0].kind == deep && p.segs[1].kind != deep {
		return path != "" && p.segs[1].match(path[strings.LastIndexByte(path, '/')+1:])
	}
	return p.run(path, dir, exact)
}

// Covers reports whether the pattern names this path or a directory above it.
func (p *Pattern) Covers(path string, dir bool) bool { return p.run(path, dir, covers) }

// CoversTree is Covers, except that "d/**" also covers the directory d itself: the right to write
// everything in d includes making d.
func (p *Pattern) CoversTree(path string, dir bool) bool { return p.run(path, dir, coversTree) }

// MayMatchBelow reports whether the pattern could name anything strictly below
// the directory. It may say yes too often, never no too often.
func (p *Pattern) MayMatchBelow(dir string) bool {
	if dir == "" {
		return true
	}
	return p.below(0, dir)
}

func (p *Pattern) below(i int, rest string) bool {
	for i < len(p.segs) {
		if p.segs[i].kind == deep {
			return true
		}
		if rest == "" {
			return true // segments are left: they name something deeper
		}
		name, tail := cut(rest)
		if !p.segs[i].match(name) {
			return false
		}
		i, rest = i+1, tail
	}
	return true // the directory, or one above it, is named: all below is covered
}

type mode uint8

const (
	exact mode = iota
	covers
	coversTree
)

// run is the usual two-pointer glob loop over components: on a mismatch it
// goes back to the last "**" only, which is enough because an earlier "**"
// could not swallow less.
func (p *Pattern) run(path string, dir bool, m mode) bool {
	rest, i := path, 0
	starSeg, starRest := -1, ""
	for {
		switch {
		case i == len(p.segs):
			if rest == "" && (dir || !p.dirOnly) {
				return path != "" || m == coversTree
			}
			if rest != "" && m != exact {
				return true // a directory above the path is named
			}
		case p.segs[i].kind == deep:
			if i == len(p.segs)-1 {
				if rest != "" {
					return m != exact || !p.dirOnly || dir
				}
				return m == coversTree && dir
			}
			starSeg, starRest = i, rest
			i++
			continue
		case rest != "":
			name, tail := cut(rest)
			if p.segs[i].match(name) {
				i, rest = i+1, tail
				continue
			}
		}
		if starSeg < 0 || starRest == "" {
			return false
		}
		_, starRest = cut(starRest)
		i, rest = starSeg+1, starRest
	}
}

func (s *segment) match(name string) bool {
	switch s.kind {
	case literal:
		return s.text == name
	case any:
		return true
	}
	return matchComponent(s.text, name)
}

func cut(path string) (name, rest string) {
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return path, ""
}
