package tomledit

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Replace is Set for a key that the file may have already: the value is replaced then, also one of several lines, and the
// comment behind it stays. A key that is set as a table, or by dotted keys below it, is refused with ErrSet. The result has
// that value and everything else as it was; text in which that is not done by changing one line is refused.
func Replace(text, table, key, value string) (string, error) {
	out, err := Set(text, table, key, value)
	if errors.Is(err, ErrSet) {
		begin, end, found := find(text, table, key)
		if !found {
			return "", fmt.Errorf("%s %w, by keys or a table below it", strings.TrimPrefix(table+"."+key, "."), ErrSet)
		}
		out, err = text[:begin]+value+text[end:], nil
	}
	if err != nil {
		return "", err
	}
	if err := Differs(text, out, table, key, value); err != nil {
		return "", err
	}
	return out, nil
}

// assignment is the begin of a line that sets a bare or quoted key.
var assignment = regexp.MustCompile(`^\s*"?([A-Za-z0-9_-]+)"?\s*=[ \t]*`)

// find returns where the value of a key of a table begins and ends in text.
func find(text, table, key string) (begin, end int, found bool) {
	inside := table == ""
	for at := 0; at < len(text); {
		line := text[at:]
		if i := strings.IndexByte(line, '\n'); i >= 0 {
			line = line[:i]
		}
		if m := header.FindStringSubmatch(line); m != nil {
			inside = m[1] == "[" && m[2] == table
			at += len(line) + 1
			continue
		}
		m := assignment.FindStringSubmatchIndex(line)
		if m == nil {
			at += len(line) + 1
			continue
		}
		begin, end := at+m[1], at+m[1]
		end += valueLength(text[begin:])
		if inside && line[m[2]:m[3]] == key {
			return begin, end, true
		}
		at = end
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			at += i + 1
		} else {
			at = len(text)
		}
	}
	return 0, 0, false
}

// valueLength is the length of the value at the begin of text, without space and comment behind it. A list or an inline
// table ends with its last bracket. Multi-line strings are not known: Set refuses their files.
func valueLength(text string) int {
	depth, last := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"', '\'':
			i = stringEnd(text, i)
			last = min(i+1, len(text))
		case '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
			i-- // the loop sees the end of the line
		case '\n':
			if depth <= 0 {
				return last
			}
		case ' ', '\t', '\r':
		default:
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth--
			}
			last = i + 1
		}
		if depth <= 0 && i+1 < len(text) && text[i+1] == '#' {
			return last
		}
	}
	return last
}

// stringEnd returns the index of the quote that ends the string that begins at i, or of the end of its line.
func stringEnd(text string, i int) int {
	quote := text[i]
	for i++; i < len(text) && text[i] != quote && text[i] != '\n'; i++ {
		if quote == '"' && text[i] == '\\' {
			i++
		}
	}
	if i < len(text) && text[i] == '\n' {
		return i - 1
	}
	return i
}
