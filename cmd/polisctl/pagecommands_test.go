package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

var inlineCode = regexp.MustCompile("`([^`\n]+)`")

// TestCommandsOfThePagesExist parses every polisctl command line of the documentation with the tree of commands: in
// blocks, the command, its flags and the number of its arguments must be right; in sentences, the command and its flags.
func TestCommandsOfThePagesExist(t *testing.T) {
	var pages []string
	for _, glob := range []string{"../../*.md", "../../docs/*.md", "../../docs/guide/*.md"} {
		found, err := filepath.Glob(glob)
		require.NoError(t, err)
		pages = append(pages, found...)
	}
	blocks, sentences := 0, 0
	for _, page := range pages {
		b, err := os.ReadFile(page)
		require.NoError(t, err)
		inBlocks, inSentences := codeOfPage(string(b))
		for _, code := range inBlocks {
			for _, words := range commandsOf(code) {
				blocks++
				if err := parses(words, true); err != nil {
					t.Errorf("%s: %q: %v", page, strings.Join(words, " "), err)
				}
			}
		}
		for _, code := range inSentences {
			for _, words := range commandsOf(code) {
				sentences++
				if err := parses(words, false); err != nil {
					t.Errorf("%s: %q: %v", page, strings.Join(words, " "), err)
				}
			}
		}
	}
	require.Greater(t, blocks, 60, "commands in blocks")
	require.Greater(t, sentences, 150, "commands in sentences")
}

func TestWrongCommandsOfAPageAreFound(t *testing.T) {
	for _, c := range []struct {
		line  string
		block bool
		want  string
	}{
		{"polisctl agents list", true, ""},
		{"cd x && polisctl agents exec claude -- rm --anything | tee y", true, ""},
		{"polisctl agents lst", true, "unknown command"},
		{"polisctl agents list --nonesuch", true, "unknown flag: --nonesuch"},
		{"polisctl agents set NAME --nonesuch", false, "unknown flag --nonesuch"},
		{"polisctl agents set NAME --memory", false, ""},
		{"polisctl agents set NAME --memory", true, "needs an argument"},
		{"polisctl agents remove", true, "needs"},
		{"true; sudo polisctl nonesuch", false, "unknown command"},
		{"polisctl down [WORKSPACE] [--frce]", false, "unknown flag --frce"},
		{"out=$(polisctl -q nonesuch)", true, "unknown command"},
	} {
		commands := commandsOf(c.line)
		require.Len(t, commands, 1, c.line)
		err := parses(commands[0], c.block)
		if c.want == "" {
			require.NoError(t, err, c.line)
			continue
		}
		require.ErrorContains(t, err, c.want, c.line)
	}
}

// codeOfPage returns the blocks of commands of a page, and what sentences and tables have as code.
func codeOfPage(page string) (blocks, sentences []string) {
	var block strings.Builder
	fence := ""
	flush := func() {
		blocks = append(blocks, block.String())
		block.Reset()
	}
	for line := range strings.Lines(page) {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			if fence != "" {
				fence = ""
				flush()
			} else {
				fence = trimmed
			}
		case fence == "```" || fence == "```sh":
			block.WriteString(line)
		case fence != "":
		case strings.HasPrefix(line, "    "):
			blocks = append(blocks, line)
		default:
			for _, m := range inlineCode.FindAllStringSubmatch(line, -1) {
				sentences = append(sentences, m[1])
			}
		}
	}
	return blocks, sentences
}

// commandsOf returns the words of each polisctl command in lines of a shell. It knows quotes, comments, operators and
// substitutions, as pages use them.
func commandsOf(code string) [][]string {
	code = strings.ReplaceAll(code, "\\\n", " ")
	var out [][]string
	var words []string
	var word strings.Builder
	inWord, quote := false, byte(0)
	endWord := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		endWord()
		for len(words) > 0 && (words[0] == "$" || words[0] == "sudo" || words[0] == "time" || words[0] == "do" || words[0] == "then" || words[0] == "if" || words[0] == "!" || strings.Contains(words[0], "=") && !strings.HasPrefix(words[0], "-")) {
			words = words[1:]
		}
		if len(words) > 0 && words[0] == "polisctl" {
			out = append(out, words[1:])
		}
		words = nil
	}
	for i := 0; i < len(code); i++ {
		c := code[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				word.WriteByte(c)
			}
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == '#' && !inWord:
			for i+1 < len(code) && code[i+1] != '\n' {
				i++
			}
		case c == '$' && i+1 < len(code) && code[i+1] == '(':
			words, inWord = nil, false
			word.Reset()
			i++
		case c == '|' && inWord && i+1 < len(code) && code[i+1] != '|' && code[i+1] != ' ':
			word.WriteByte(c) // alternatives in a synopsis: start|stop
		case strings.IndexByte("|;&()\n", c) >= 0:
			endCommand()
		case c == '>' || c == '<':
			endWord()
			words = append(words, string(c))
		case c == ' ' || c == '\t':
			endWord()
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	endCommand()
	return out
}

// parses reports what is wrong with the words of a command. A complete one must have its arguments, and each of its
// flags a value. A synopsis has parts in brackets, and alternatives.
func parses(words []string, complete bool) error {
	a := &app{getenv: func(string) string { return "" }, now: time.Now}
	var args []string
	for _, w := range words {
		if w == ">" || w == "<" || w == "2" && complete {
			break
		}
		if w == "..." || w == "…" {
			complete = false
			continue
		}
		if strings.ContainsAny(w, "[]") || strings.Contains(w, "...") {
			complete = false
			w = strings.NewReplacer("[", "", "]", "", "...", "").Replace(w)
		}
		args = append(args, w)
	}
	for i, w := range args {
		if first, _, ok := strings.Cut(w, "|"); ok && !strings.HasPrefix(w, "-") {
			complete = false
			for alternative := range strings.SplitSeq(w, "|") {
				try := append(append([]string{}, args[:i]...), alternative)
				if err := parses(try, false); err != nil {
					return err
				}
			}
			args[i] = first
		}
	}
	root := a.root()
	c, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if !complete {
		return knownFlags(c, rest)
	}
	if c.DisableFlagParsing {
		return nil
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	positional := c.Flags().Args()
	if c.HasSubCommands() && len(positional) > 0 {
		return group(c, positional)
	}
	return c.ValidateArgs(positional)
}

// knownFlags checks the names of flags alone; a sentence names a flag without its value.
func knownFlags(c *cobra.Command, words []string) error {
	if c.HasSubCommands() {
		for _, w := range words {
			if !strings.HasPrefix(w, "-") && strings.ToLower(w) == w {
				return group(c, []string{w})
			}
		}
	}
	c.InitDefaultHelpFlag()
	for _, w := range words {
		if w == "--" || c.DisableFlagParsing {
			return nil
		}
		for one := range strings.SplitSeq(w, "|") {
			name, _, _ := strings.Cut(one, "=")
			switch {
			case strings.HasPrefix(name, "--"):
				if c.Flag(name[2:]) == nil {
					return usagef("unknown flag %s of %s", name, c.CommandPath())
				}
			case strings.HasPrefix(name, "-") && len(name) > 1:
				if c.Flags().ShorthandLookup(name[1:2]) == nil && c.InheritedFlags().ShorthandLookup(name[1:2]) == nil {
					return usagef("unknown flag %s of %s", name, c.CommandPath())
				}
			}
		}
	}
	return nil
}
