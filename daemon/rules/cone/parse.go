package cone

import (
	"fmt"
	"strings"
)

// Parse reads the text of info/sparse-checkout. Anything but the patterns of a cone is an error that wraps
// ErrNoCone: other patterns name no directories.
func Parse(text string) (Cone, error) {
	bad := func(format string, args ...any) (Cone, error) {
		return Cone{}, fmt.Errorf("%w: %s", ErrNoCone, fmt.Sprintf(format, args...))
	}
	if len(text) > MaxText {
		return bad("they have %d bytes: at most %d", len(text), MaxText)
	}
	p := parser{whole: map[string]bool{}, shallow: map[string]bool{}}
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || line[0] == '#' {
			continue
		}
		if err := p.line(line); err != nil {
			return bad("%v", err)
		}
	}
	if !p.top || !p.below {
		return bad(`they do not begin with "/*" and "!/*/"`)
	}
	var dirs []string
	for dir := range p.whole {
		if p.shallow[dir] {
			continue
		}
		for _, above := range parents(dir) {
			if !p.shallow[above] && !p.whole[above] {
				return bad("%.200q is there without the directory above it", dir)
			}
		}
		dirs = append(dirs, dir)
	}
	c, err := New(dirs...)
	if err != nil {
		return bad("%v", err)
	}
	return c, nil
}

// parser has the lines read so far: the directories of which everything is there, and those, among them, of which
// only the files directly in them are.
type parser struct {
	top, below     bool
	whole, shallow map[string]bool
}

func (p *parser) line(line string) error {
	switch {
	case line == "/*" && !p.top && !p.below:
		p.top = true
		return nil
	case line == "!/*/" && p.top && !p.below:
		p.below = true
		return nil
	case !p.below:
		return fmt.Errorf("%.200q is not in its place", line)
	}
	pattern, not := strings.CutPrefix(line, "!")
	text, rooted := strings.CutPrefix(pattern, "/")
	text, isDir := strings.CutSuffix(text, "/")
	if !rooted || !isDir {
		return fmt.Errorf("%.200q names no directory from the top", line)
	}
	if not {
		text, isDir = strings.CutSuffix(text, "/*")
		if !isDir {
			return fmt.Errorf("%.200q leaves a directory out", line)
		}
	}
	dir, err := unescape(text)
	if err == nil {
		dir, err = clean(dir)
	}
	if err != nil {
		return err
	}
	if not && !p.whole[dir] {
		return fmt.Errorf("%.200q is there before its directory", line)
	}
	if not {
		p.shallow[dir] = true
	} else {
		p.whole[dir] = true
		// git writes each line once: a later one would take the exclusion back.
		if p.shallow[dir] {
			return fmt.Errorf("%.200q is there twice", line)
		}
	}
	if len(p.whole) > 2*MaxDirs {
		return fmt.Errorf("they have more than %d directories", 2*MaxDirs)
	}
	return nil
}

// unescape returns the name that a pattern without wildcards stands for.
func unescape(pattern string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteByte(pattern[i])
		case strings.IndexByte(special, c) >= 0:
			return "", fmt.Errorf("%.200q has a wildcard", pattern)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}
