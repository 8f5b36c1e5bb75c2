package main

import (
	"bufio"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

var (
	hintCommand = regexp.MustCompile(`polisctl((?: +[a-z][a-z-]*)*)`)
	hintFlag    = regexp.MustCompile(`--([a-z][a-z-]+)`)
	hintEnd     = regexp.MustCompile(`[,;:()]| -- | && | and | or | is | polisctl `)
)

// TestHintsNameCommandsThatExist parses what the hints name, wherever they are in the source (see
// TestEveryHintIsTried): the commands and the options are those of polisctl.
func TestHintsNameCommandsThatExist(t *testing.T) {
	root := new(app).root()
	file, err := os.Open("../../e2e/arch/testdata/hints.txt")
	require.NoError(t, err)
	defer file.Close()
	seen := map[string]bool{}
	sc := bufio.NewScanner(file)
	for sc.Scan() {
		_, text, ok := strings.Cut(sc.Text(), "\t")
		if !ok {
			continue
		}
		text, err := strconv.Unquote(`"` + text + `"`)
		require.NoError(t, err, sc.Text())
		for _, at := range hintCommand.FindAllStringSubmatchIndex(text, -1) {
			words := strings.Fields(text[at[2]:at[3]])
			if len(words) > 0 && (words[0] == "and" || words[0] == "merge" && strings.HasSuffix(text, "only by polisctl merge")) {
				continue // polisctl and polisd
			}
			rest := text[at[0]+len("polisctl"):]
			if end := hintEnd.FindStringIndex(rest); end != nil {
				rest = rest[:end[0]]
			}
			cmd := commandOf(t, root, text, words)
			if cmd == nil {
				continue
			}
			seen[cmd.CommandPath()] = true
			for _, f := range hintFlag.FindAllStringSubmatch(rest, -1) {
				if cmd.Flags().Lookup(f[1]) == nil && cmd.InheritedFlags().Lookup(f[1]) == nil && root.PersistentFlags().Lookup(f[1]) == nil {
					t.Errorf("%q: %s has no option --%s", text, cmd.CommandPath(), f[1])
				}
			}
		}
	}
	require.NoError(t, sc.Err())
	require.Greater(t, len(seen), 40, "the test sees the hints")
}

// commandOf is the command that words begin with: the others are arguments, or the sentence continues.
func commandOf(t *testing.T, root *cobra.Command, text string, words []string) *cobra.Command {
	t.Helper()
	if len(words) == 0 {
		return root // an option comes first
	}
	cmd, _, err := root.Find(words[:1])
	if err != nil || cmd == root {
		t.Errorf("%q: polisctl has no command %q", text, words[0])
		return nil
	}
	if sub, _, err := root.Find(words); err == nil {
		cmd = sub
	}
	if cmd.HasSubCommands() && !cmd.Runnable() && len(words) > 1 {
		t.Errorf("%q: %s has no command %q", text, cmd.CommandPath(), words[1])
	}
	return cmd
}
