package authorship

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
)

// maxText bounds the text of a line, a name and a subject, in bytes.
const maxText = 1000

// ParseBlame reads the output of git blame --porcelain: the lines of a file, and the commits that they
// are of. The commit of a line that is in no commit is "".
func ParseBlame(out string) (lines []api.BlameLine, commits map[string]api.BlameCommit, err error) {
	commits = map[string]api.BlameCommit{}
	for len(out) > 0 {
		var head string
		if head, out, err = cut(out); err != nil {
			return nil, nil, err
		}
		f := strings.Fields(head)
		if len(f) < 3 || !git.IsOID(f[0]) {
			return nil, nil, fmt.Errorf("git blame: cannot read %q", api.Shorten(head, 80))
		}
		n, err := strconv.Atoi(f[2])
		if err != nil || n != len(lines)+1 {
			return nil, nil, fmt.Errorf("git blame: %q is not line %d", api.Shorten(head, 80), len(lines)+1)
		}
		id := f[0]
		c := commits[id]
		c.ID = id
		var text string
		if text, out, err = header(out, &c); err != nil {
			return nil, nil, err
		}
		if strings.Trim(id, "0") == "" {
			id = ""
		} else {
			commits[id] = c
		}
		lines = append(lines, api.BlameLine{Line: n, Commit: id, Text: text})
	}
	return lines, commits, nil
}

// header reads what describes a commit, and the line after it.
func header(out string, c *api.BlameCommit) (text, rest string, err error) {
	for {
		var line string
		if line, out, err = cut(out); err != nil {
			return "", "", err
		}
		if text, ok := strings.CutPrefix(line, "\t"); ok {
			return Text(text), out, nil
		}
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "author":
			c.Author = Text(value)
		case "summary":
			c.Summary = Text(value)
		case "committer-time":
			sec, err := strconv.ParseInt(value, 10, 64)
			if err != nil || sec < 0 || sec > 1<<37 { // JSON has no year above 9999
				continue
			}
			c.Time = time.Unix(sec, 0).UTC()
		}
	}
}

func cut(out string) (line, rest string, err error) {
	line, rest, ok := strings.Cut(out, "\n")
	if !ok {
		return "", "", errors.New("git blame: the output is incomplete")
	}
	return line, rest, nil
}

// Text returns text that an agent wrote, valid and bounded.
func Text(s string) string { return api.Shorten(strings.ToValidUTF8(s, "\uFFFD"), maxText) }

// Uncommitted returns the lines of a file that is in no commit.
func Uncommitted(content string) (lines []api.BlameLine) {
	for text := range strings.Lines(content) {
		lines = append(lines, api.BlameLine{Line: len(lines) + 1, Text: Text(strings.TrimSuffix(text, "\n"))})
	}
	return lines
}
