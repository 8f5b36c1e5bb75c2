package ignore

import (
	"bytes"

	"polis/fusefs/policy/glob"
)

// maxLines bounds the patterns of one file.
const maxLines = 10_000

// parse compiles the lines of a .gitignore file (gitignore(5)). A pattern
// that does not compile matches nothing in git either; too many of them make
// the file count as absent, ok=false.
func parse(b []byte) (patterns []*glob.Pattern, ok bool) {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	n := 0
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		if line = bytes.TrimSuffix(line, []byte{'\r'}); len(line) == 0 || line[0] == '#' {
			continue
		}
		if n++; n > maxLines {
			return nil, false
		}
		p, err := glob.Compile(string(trimSpaces(line)))
		if err != nil {
			continue
		}
		patterns = append(patterns, p)
	}
	return patterns, true
}

// trimSpaces removes trailing spaces that no backslash quotes.
func trimSpaces(line []byte) []byte {
	keep := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		keep = min(i+1, len(line))
	}
	return line[:keep]
}
