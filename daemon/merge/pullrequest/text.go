package pullrequest

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxTitle   = 100 // runes; forges cut at 255 bytes and lists at about 70
	maxBody    = 60 << 10
	maxCommits = 50
)

// Commit is one commit as a pull request shows it.
type Commit struct{ Subject, Body string }

// Work is what a pull request is about.
type Work struct {
	Agent, Branch string
	// Tasks are what the agent was to do when it made the commits, the oldest first; may be empty.
	Tasks []string
	// Commits are the branch's own, oldest first; More were left out. Range is all of them, for git log.
	Commits []Commit
	More    int
	Range   string
}

// Title is a title for the work: of one commit its subject, else the first line
// of the first task, else the branch.
func (w Work) Title() string {
	if len(w.Commits) == 1 && w.More == 0 {
		if t := oneLine(w.Commits[0].Subject); t != "" {
			return t
		}
	}
	for line := range strings.Lines(strings.Join(w.Tasks, "\n")) {
		if t := oneLine(strings.TrimLeft(line, "#*- \t")); t != "" {
			return t
		}
	}
	if n := len(w.Commits); n > 0 {
		if t := oneLine(w.Commits[n-1].Subject); t != "" {
			return t
		}
	}
	return oneLine("Changes of " + w.Branch)
}

// Body is a description of the work: the tasks and the commits.
func (w Work) Body() string {
	var b strings.Builder
	for i, task := range w.Tasks {
		switch {
		case i == 0 && len(w.Tasks) == 1:
			b.WriteString("## Task\n\n")
		case i == 0:
			b.WriteString("## Tasks\n\n")
		}
		for line := range strings.Lines(strings.TrimSpace(plain(task))) {
			b.WriteString("> " + strings.TrimRight(line, "\n") + "\n")
		}
		b.WriteString("\n")
	}
	if len(w.Commits) == 1 && w.More == 0 {
		if body := strings.TrimSpace(plain(w.Commits[0].Body)); body != "" {
			b.WriteString(body + "\n\n")
		}
	} else {
		b.WriteString("## Commits\n\n")
		for _, c := range w.Commits {
			fmt.Fprintf(&b, "- %s\n", oneLine(c.Subject))
		}
		if w.More > 0 {
			fmt.Fprintf(&b, "- and %d more: `git log --no-merges %s` lists all\n", w.More, w.Range)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "From branch `%s` of agent %s.\n", strings.ReplaceAll(w.Branch, "`", ""), w.Agent)
	return cut(b.String(), maxBody)
}

// plain drops what could hide something from a reader: control characters and
// those that turn the direction of text.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// oneLine makes one line of at most maxTitle runes.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(plain(s)), " ")
	if utf8.RuneCountInString(s) <= maxTitle {
		return s
	}
	r := []rune(s)[:maxTitle-1]
	s = string(r)
	if i := strings.LastIndexByte(s, ' '); i > maxTitle/2 {
		s = s[:i]
	}
	return s + "…"
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "\n\n(cut)\n"
}
