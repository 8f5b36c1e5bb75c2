package arch

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// privateWords are phrases that a reader has to read twice, and what to write instead.
func privateWords() map[*regexp.Regexp]string {
	words := map[*regexp.Regexp]string{}
	for phrase, better := range map[string]string{
		`told of`:                             "reported, logged, audited; emits an event",
		`(is|are|be|been|being) told`:         "gets, sees, reads; is notified; the API returns",
		`(to|can|may|could|cannot) be had`:    "available; if the kernel supports it",
		`somebody`:                            "the caller, the administrator, another agent, another program",
		`whoever`:                             "the caller, the holder, any user, every program that",
		`(is|are) said`:                       "is reported, is returned; the text is",
		`says so`:                             "reports it, logs it, returns an error",
		`looks at`:                            "reads, checks, inspects, scans",
		`(is|are) asked`:                      "is called, is queried, is consulted; the user confirms",
		`comes to nothing|has nothing to say`: "the outcome: an errno or a state",
		`(is )?not its business`:              "the caller must ...; this package never ...",
		`of its own accord`:                   "unasked, automatically",
		`for good`:                            "permanently; or nothing",
		`in earnest|as it were`:               "nothing",
	} {
		words[regexp.MustCompile(`(?i)\b(`+phrase+`)\b`)] = better
	}
	return words
}

// spared are directories that may use them still.
func spared() []string { return []string{"fusefs"} }

// TestProseIsPlain: comments, texts and documentation use the terms of man pages and the
// kernel's documentation: who does what, in the active voice.
func TestProseIsPlain(t *testing.T) {
	words, texts := privateWords(), 0
	require.NoError(t, filepath.WalkDir(root(t), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root(t), path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			if slices.Contains([]string{".git", "bin", "docs/man", "e2e/systemd/root"}, rel) {
				return filepath.SkipDir
			}
			return nil
		}
		if !e.Type().IsRegular() || slices.Contains(spared(), filepath.Dir(rel)) || rel == filepath.Join("e2e", "arch", "words_test.go") {
			return nil
		}
		for _, text := range prose(t, path) {
			texts++
			for word, better := range words {
				if found := word.FindString(text.text); found != "" {
					t.Errorf("%s:%d: %q: write %s", rel, text.line, found, better)
				}
			}
		}
		return nil
	}))
	require.Greater(t, texts, 10_000, "the test sees texts at all")
}

func TestProseIsFound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.go")
	require.NoError(t, os.WriteFile(file, []byte("package x\n\n// One that some\n// body wrote.\nvar somebody = \"a text\" // behind\n"), 0o600))
	require.Equal(t, []passage{{3, "One that some body wrote."}, {5, `"a text"`}, {5, "behind"}}, prose(t, file))
	require.NoError(t, os.Rename(file, file+".md"))
	require.Len(t, prose(t, file+".md"), 5)
	found := 0
	for word := range privateWords() {
		if word.MatchString("Refusals are told of, somebody says so.") {
			found++
		}
	}
	require.Equal(t, 4, found)
}

// passage is a text of a file: a block of comments, a string or a line.
type passage struct {
	line int
	text string
}

// prose returns the texts of a file that a person reads.
func prose(t *testing.T, path string) (out []passage) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	switch filepath.Ext(path) {
	case ".md", ".toml", ".service", ".slice", ".sh", ".txt", ".txtar", ".yml":
		for i, line := range strings.Split(strings.TrimSuffix(string(content), "\n"), "\n") {
			out = append(out, passage{i + 1, line})
		}
		return out
	case ".go":
	default:
		return nil
	}
	files := token.NewFileSet()
	file := files.AddFile(path, -1, len(content))
	var s scanner.Scanner
	s.Init(file, content, nil, scanner.ScanComments)
	last := 0 // line of the comment before, which this one may continue
	for {
		pos, tok, lit := s.Scan()
		line := file.Line(pos)
		switch tok {
		case token.EOF:
			return out
		case token.COMMENT:
			text := strings.TrimSpace(strings.Trim(strings.TrimPrefix(lit, "//"), "/*"))
			if last > 0 && line == last+1 && len(out) > 0 {
				out[len(out)-1].text += " " + text
			} else {
				out = append(out, passage{line, text})
			}
			last = line
		case token.STRING:
			out, last = append(out, passage{line, lit}), 0
		case token.SEMICOLON:
			if lit != "\n" {
				last = 0
			}
		default:
			last = 0
		}
	}
}
