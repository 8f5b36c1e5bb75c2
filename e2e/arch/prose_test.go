package arch

import (
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// dialect has phrases that no manual uses, with their replacements. Each occurrence of a phrase has one
// of its words: texts without them, nearly all, are not compared with it.
var dialect = []struct {
	words   string
	phrase  string
	instead string
}{
	{"tells telling", `(?i)\b(tells|telling)\b`, `"reports", "returns", "prints", "distinguishes"`},
	{"heard hears", `(?i)\b(heard of|hears of)\b`, `"answers", "is notified"`},
	{"says say", `\b[a-zA-Z.]+ (says|say) (whether|so)\b`, `"reports whether"`},
	{"nothing", `(?i)\b(has|have) nothing (left )?to (say|tell)\b`, `"returns nothing"`},
	{"told", `(?i)\b((is|are|was|were|be|been|being|not) told|told of)\b`, `"is reported", "is logged", "gets", "sees", "is notified", "is called with"`},
	{"had", `(?i)\b(to|can|cannot|could|may) be had\b`, `"available", "if the kernel supports it"`},
	{"said", `(?i)\b(is|are) said\b`, `"is reported", "the message is"`},
	{"says", `(?i)\bsays so\b`, `"reports it", "logs it", "returns an error"`},
	{"looks looked", `(?i)\b(looks|looked) at\b`, `"reads", "checks", "scans"`},
	{"asked", `(?i)\b(is|are) asked\b`, `"is called", "is queried", "you confirm"`},
	{"accord", `(?i)\bof its own accord\b`, `"unasked", "automatically"`},
	{"good", `(?i)\bfor good\b`, `"permanently", or nothing`},
	{"earnest were", `(?i)\b(in earnest|as it were)\b`, "nothing"},
	{"nothing", `(?i)\bcomes? to nothing\b`, "the errno, or the state"},
	{"nothing", `(?i)\b(has|have|had) nothing to say\b`, "the value that is returned"},
	{"business", `(?i)\bnot its business\b`, `"the caller must ...", "this package never ..."`},
	{"somebody", `(?i)\bsomebody\b`, `"another agent", "the user", "a process"`},
	{"asks", `(?i)\bwho asks\b`, `"the caller"`},
	{"anybody", `(?i)\banybody\b`, `"any user", "another agent", "a caller"`},
	{"home", `(?i)\bcomes? home\b`, `"is merged"`},
	{"gets", `(?i)\bhow [a-z ]+ gets on\b`, `"its progress"`},
	{"vain", `(?i)\bin vain\b`, `"without an answer", "fails"`},
	{"business", `(?i)\bthe business of\b`, `"only package X does it"`},
	{"counts", `(?i)\bcounts (at once|from)\b`, `"applies at once", "applies from"`},
	{"whoever whomever", `(?i)\b(whoever|whomever)\b`, `"a caller that", "regardless of who"`},
	{"aside", `(?i)\b(puts?|putting|keeps?|kept) ([a-z]+ ){0,3}aside\b`, `"saves in the trash", "renames"`},
	{"wrong", `(?i)\bwhatever goes wrong\b`, `"on every failure"`},
	{"ever", `(?i)\bas ever\b`, `"as before"`},
	{"go goes going went gone", `(?i)\b(go|goes|going|went|gone) on\b`, `"continue", "resume", "run"`},
	{"anew", `(?i)\banew\b`, `"again", "rebuild", "restart"`},
	{"take takes taken took taking", `(?i)\b(takes?|taken|took|taking) ([a-z]+ )?back\b`, `"revert", "revoke", "undo", "reclaim", "negate"`},
	{"becomes became", `(?i)\bwhat (becomes|became) of\b`, `"the result of", "the state of"`},
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

// phrases are those of dialect, compiled, and byWord the rows of dialect with a word.
var phrases, byWord = compile()

func compile() (phrases []*regexp.Regexp, byWord map[string][]int) {
	byWord = map[string][]int{}
	for i, d := range dialect {
		phrases = append(phrases, regexp.MustCompile(d.phrase))
		for w := range strings.FieldsSeq(d.words) {
			byWord[w] = append(byWord[w], i)
		}
	}
	return phrases, byWord
}

// inWord reports whether a byte is of a word, as \b of a regular expression has it.
func inWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// suspected returns the rows of dialect of which text has a word, in their order.
func suspected(text string) []int {
	var rows []int
	var word [16]byte
	for i := 0; i < len(text); i++ {
		if !inWord(text[i]) {
			continue
		}
		n := 0
		for ; i < len(text) && inWord(text[i]); i++ {
			if c := text[i]; n < len(word) {
				if 'A' <= c && c <= 'Z' {
					c += 'a' - 'A'
				}
				word[n] = c
			}
			n++
		}
		if n <= len(word) {
			rows = append(rows, byWord[string(word[:n])]...)
		}
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}

// spoken lists the phrases of the dialect in a file; in Go source, those in comments and strings. A
// phrase may continue in the next line.
func spoken(name string, b []byte) (faults []string) {
	report := func(where func() string, text string) {
		rows := suspected(text)
		if len(rows) == 0 {
			return
		}
		text = strings.Join(strings.Fields(strings.ReplaceAll(text, "\n//", "\n")), " ")
		for _, i := range rows {
			if p := phrases[i].FindStringIndex(text); p != nil {
				around := text[max(0, p[0]-30):min(len(text), p[1]+30)]
				faults = append(faults, where()+": \""+text[p[0]:p[1]]+"\" (in: "+around+") is dialect; write "+dialect[i].instead)
			}
		}
	}
	if !strings.HasSuffix(name, ".go") {
		report(func() string { return name }, string(b))
		return faults
	}
	var s scanner.Scanner
	files := token.NewFileSet()
	file := files.AddFile(name, -1, len(b))
	s.Init(file, b, nil, scanner.ScanComments)
	// A group is the comments on lines that follow each other. One beside code has its line only.
	group, begin, last, code := "", token.NoPos, 0, 0
	end := func() {
		if group != "" {
			report(func() string { return files.Position(begin).String() }, group)
		}
		group = ""
	}
	for {
		pos, tok, lit := s.Scan()
		switch tok {
		case token.EOF:
			end()
			return faults
		case token.COMMENT:
			line := file.Line(pos)
			if group != "" && (line > last+1 || line > last && code == last) {
				end()
			}
			if group == "" {
				begin = pos
			}
			group += "\n" + lit
			last = line + strings.Count(lit, "\n")
			continue
		case token.SEMICOLON:
			if lit == "\n" {
				continue
			}
		case token.STRING:
			end()
			report(func() string { return files.Position(pos).String() }, lit)
		}
		end()
		code = file.Line(pos) + strings.Count(lit, "\n")
	}
}

// TestEveryPhraseIsFound: the words of a row are in each of its occurrences.
func TestEveryPhraseIsFound(t *testing.T) {
	for i, d := range dialect {
		re, err := syntax.Parse(d.phrase, syntax.Perl)
		require.NoError(t, err)
		for _, text := range expand(re) {
			for _, text := range []string{text, strings.ToUpper(text[:1]) + text[1:]} {
				if !phrases[i].MatchString(text) {
					continue // of one case only
				}
				require.NotEmpty(t, spoken("a.md", []byte("Here "+text+" it is")), "%s: %q is not found", d.phrase, text)
				found := strings.Join(spoken("a.go", []byte("package a\n\n// Here\n// "+strings.ReplaceAll(text, " ", "\n// ")+" it is.\n")), "\n")
				require.Contains(t, found, "write "+d.instead, "%q in a comment", text)
			}
		}
	}
}

// expand returns texts that a regular expression matches, at least one for each of its alternatives.
func expand(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{strings.ToLower(string(re.Rune))}
	case syntax.OpCharClass:
		return []string{string(re.Rune[len(re.Rune)-1])}
	case syntax.OpCapture, syntax.OpPlus:
		return expand(re.Sub[0])
	case syntax.OpQuest, syntax.OpStar, syntax.OpRepeat:
		return append(expand(re.Sub[0]), "")
	case syntax.OpAlternate:
		var out []string
		for _, sub := range re.Sub {
			out = append(out, expand(sub)...)
		}
		return out
	case syntax.OpConcat:
		out := []string{""}
		for _, sub := range re.Sub {
			var longer []string
			for _, head := range out {
				for _, tail := range expand(sub) {
					longer = append(longer, head+tail)
				}
			}
			out = longer
		}
		return out
	}
	return []string{""} // it matches no character
}
