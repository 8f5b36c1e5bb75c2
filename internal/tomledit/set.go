package tomledit

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ErrSet is returned if the file sets the key already.
var ErrSet = errors.New("is set already")

// header is a line that begins a table; the name is bare or dotted.
var header = regexp.MustCompile(`^\s*(\[\[?)\s*([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)\s*\]\]?\s*(?:#.*)?$`)

// Set returns text with "key = value" in a table, which is dotted, or "" for the top level. A line that has the
// key in a comment ("#key = ...") is replaced. Otherwise the line follows the table's header, or a new table at the
// end. Text with multi-line strings is refused, because a line of one can have any content.
func Set(text, table, key, value string) (string, error) {
	if strings.Contains(text, `"""`) || strings.Contains(text, "'''") {
		return "", errors.New("the file has a multi-line string")
	}
	line := key + " = " + value
	set := regexp.MustCompile(`^\s*"?` + regexp.QuoteMeta(key) + `"?\s*[=.]`)
	commented := regexp.MustCompile(`^#` + regexp.QuoteMeta(key) + `\s*=`)
	lines := strings.Split(text, "\n")
	at, replace, inside := -1, -1, table == ""
	for i, l := range lines {
		if m := header.FindStringSubmatch(l); m != nil {
			inside = m[1] == "[" && m[2] == table
			if inside {
				at = i
			}
			continue
		}
		switch {
		case !inside:
		case set.MatchString(l):
			return "", fmt.Errorf("%s %w", strings.TrimPrefix(table+"."+key, "."), ErrSet)
		case commented.MatchString(l) && replace < 0 && whole(l):
			replace = i
		}
	}
	switch {
	case replace >= 0:
		lines[replace] = line
	case at >= 0:
		lines = slices.Insert(lines, at+1, line)
	case table == "":
		lines = slices.Insert(lines, 0, line)
	default:
		return strings.TrimRight(text, "\n") + "\n\n[" + table + "]\n" + line + "\n", nil
	}
	return strings.Join(lines, "\n"), nil
}

// whole reports whether a line has all of its value: it opens no list that ends on another line.
func whole(line string) bool {
	return strings.Count(line, "[") == strings.Count(line, "]") && strings.Count(line, "{") == strings.Count(line, "}")
}
