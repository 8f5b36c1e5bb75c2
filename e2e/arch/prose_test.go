package arch

import (
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// dialect has phrases that no manual uses, with their replacements.
var dialect = []struct {
	phrase  *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\b(tells|telling)\b`), `"reports", "returns", "prints", "distinguishes"`},
	{regexp.MustCompile(`(?i)\b(heard of|hears of)\b`), `"answers", "is notified"`},
	{regexp.MustCompile(`\b[a-zA-Z.]+ (says|say) (whether|so)\b`), `"reports whether"`},
	{regexp.MustCompile(`(?i)\b(has|have) nothing (left )?to (say|tell)\b`), `"returns nothing"`},
	{regexp.MustCompile(`(?i)\b((is|are|was|were|be|been|being|not) told|told of)\b`), `"is reported", "is logged", "gets", "sees", "is notified", "is called with"`},
	{regexp.MustCompile(`(?i)\b(to|can|cannot|could|may) be had\b`), `"available", "if the kernel supports it"`},
	{regexp.MustCompile(`(?i)\b(is|are) said\b`), `"is reported", "the message is"`},
	{regexp.MustCompile(`(?i)\bsays so\b`), `"reports it", "logs it", "returns an error"`},
	{regexp.MustCompile(`(?i)\b(looks|looked) at\b`), `"reads", "checks", "scans"`},
	{regexp.MustCompile(`(?i)\b(is|are) asked\b`), `"is called", "is queried", "you confirm"`},
	{regexp.MustCompile(`(?i)\bof its own accord\b`), `"unasked", "automatically"`},
	{regexp.MustCompile(`(?i)\bfor good\b`), `"permanently", or nothing`},
	{regexp.MustCompile(`(?i)\b(in earnest|as it were)\b`), "nothing"},
	{regexp.MustCompile(`(?i)\bcomes? to nothing\b`), "the errno, or the state"},
	{regexp.MustCompile(`(?i)\b(has|have|had) nothing to say\b`), "the value that is returned"},
	{regexp.MustCompile(`(?i)\bnot its business\b`), `"the caller must ...", "this package never ..."`},
	{regexp.MustCompile(`(?i)\bsomebody\b`), `"another agent", "the user", "a process"`},
	{regexp.MustCompile(`(?i)\bwho asks\b`), `"the caller"`},
	{regexp.MustCompile(`(?i)\banybody\b`), `"any user", "another agent", "a caller"`},
	{regexp.MustCompile(`(?i)\bcomes? home\b`), `"is merged"`},
	{regexp.MustCompile(`(?i)\bhow [a-z ]+ gets on\b`), `"its progress"`},
	{regexp.MustCompile(`(?i)\bin vain\b`), `"without an answer", "fails"`},
	{regexp.MustCompile(`(?i)\bthe business of\b`), `"only package X does it"`},
	{regexp.MustCompile(`(?i)\bcounts (at once|from)\b`), `"applies at once", "applies from"`},
	{regexp.MustCompile(`(?i)\b(whoever|whomever)\b`), `"a caller that", "regardless of who"`},
	{regexp.MustCompile(`(?i)\b(puts?|putting|keeps?|kept) ([a-z]+ ){0,3}aside\b`), `"saves in the trash", "renames"`},
	{regexp.MustCompile(`(?i)\bwhatever goes wrong\b`), `"on every failure"`},
	{regexp.MustCompile(`(?i)\bas ever\b`), `"as before"`},
	{regexp.MustCompile(`(?i)\bwhat (becomes|became) of\b`), `"the result of", "the state of"`},
}

// TestProseHasNoDialect reads every comment, every text of a program and every page.
func TestProseHasNoDialect(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "*.go", "*.md", "*.1", "*.5", "*.8", "*.toml", "*.txtar", "*.service")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	require.NoError(t, err)
	names := strings.Fields(string(out))
	require.Greater(t, len(names), 500, "the test sees the files")
	for _, name := range names {
		if name == "e2e/arch/prose_test.go" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root(t), name))
		if os.IsNotExist(err) { // removed, and not committed yet
			continue
		}
		require.NoError(t, err)
		for _, fault := range spoken(name, b) {
			t.Error(fault)
		}
	}
}

func TestWhatTheProseTestFinds(t *testing.T) {
	require.Len(t, spoken("a.go", []byte("package a\n\n// It was told of that, whoever\n// asks.\nvar somebody = `who\nasks`\n")), 3)
	require.Len(t, spoken("a.md", []byte("Nothing is to be\nhad here.\n")), 1)
	require.Empty(t, spoken("a.go", []byte("package a\n\nvar somebody = 1 // a caller\n")))
}

// spoken lists the phrases of the dialect in a file; in Go source, those in comments and strings. A
// phrase may continue in the next line.
func spoken(name string, b []byte) (faults []string) {
	report := func(where, text string) {
		text = strings.Join(strings.Fields(strings.ReplaceAll(text, "\n//", "\n")), " ")
		for _, d := range dialect {
			if p := d.phrase.FindStringIndex(text); p != nil {
				around := text[max(0, p[0]-30):min(len(text), p[1]+30)]
				faults = append(faults, where+": \""+text[p[0]:p[1]]+"\" (in: "+around+") is dialect; write "+d.instead)
			}
		}
	}
	if !strings.HasSuffix(name, ".go") {
		report(name, string(b))
		return faults
	}
	files := token.NewFileSet()
	if file, err := parser.ParseFile(files, name, b, parser.ParseComments|parser.SkipObjectResolution); err == nil {
		for _, group := range file.Comments {
			text := ""
			for _, c := range group.List {
				text += "\n" + c.Text
			}
			report(files.Position(group.Pos()).String(), text)
		}
	}
	var s scanner.Scanner
	at := token.NewFileSet()
	s.Init(at.AddFile(name, -1, len(b)), b, nil, 0)
	for {
		pos, tok, lit := s.Scan()
		switch tok {
		case token.EOF:
			return faults
		case token.STRING:
			report(at.Position(pos).String(), lit)
		}
	}
}
