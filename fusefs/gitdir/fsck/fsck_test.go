package fsck

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func tree(b []byte) error { return Tree(bufio.NewReader(bytes.NewReader(b)), 20) }

const aHash = "0123456789abcdef0123456789abcdef01234567"

// entries makes a tree of "MODE NAME" lines.
func entries(lines ...string) []byte {
	raw, _ := hex.DecodeString(aHash)
	var b []byte
	for _, l := range lines {
		b = append(append(b, l+"\x00"...), raw...)
	}
	return b
}

func TestTreesThatNoCheckoutCanHave(t *testing.T) {
	for name, c := range map[string]struct {
		tree []byte
		bad  bool
	}{
		"nothing":               {nil, false},
		"files of all kinds":    {entries("100644 .gitignore", "120000 a", "100755 b", "100664 b.c", "40000 d", "160000 sub"), false},
		"a directory sorts":     {entries("100644 a.b", "40000 a", "100644 a0"), false},
		"an old zero":           {entries("040000 a"), false},
		"any bytes":             {entries("100644 \x01\n\x1b[31m", "100644 a\\b", "100644 \xff\xfe"), false},
		"dot git":               {entries("40000 .git"), true},
		"dot git of HFS":        {entries("40000 .g\u200cit"), true},
		"dot git of HFS, late":  {entries("40000 .git\ufeff"), true},
		"apart, as both kinds":  {entries("100644 a", "100644 a-", "40000 a"), true},
		"a pair that is none":   {entries("100644 a", "100644 a-b", "40000 a-c", "40000 ab"), false},
		"255 bytes":             {entries("100644 " + strings.Repeat("n", 255)), false},
		"256 bytes":             {entries("100644 " + strings.Repeat("n", 256)), true},
		"a linked gitmodules 2": {entries("120000 GITMOD~1"), true},
		"a linked gitmodules 3": {entries("120000 gi7eba~9"), true},
		"a linked gitmodules 4": {entries("120000 .gitmodule\u200bs"), false},
		"a linked gitmodules 5": {entries("120000 .gitmodule\u200cs"), true},
		"no object":             {append([]byte("100644 a\x00"), make([]byte, 20)...), true},
		"dot git in capitals":   {entries("40000 .Git"), true},
		"dot git of NTFS":       {entries("40000 GIT~1"), true},
		"dot git and a stream":  {entries("40000 .git::$INDEX_ALLOCATION"), true},
		"dot git and dots":      {entries("40000 .git. ."), true},
		"behind a backslash":    {entries("100644 a\\.git"), true},
		"upwards":               {entries("40000 .."), true},
		"here":                  {entries("40000 ."), true},
		"no name":               {entries("100644 "), true},
		"a path":                {entries("100644 ../../x"), true},
		"twice":                 {entries("100644 a", "120000 a"), true},
		"twice, as both kinds":  {entries("100644 a", "40000 a"), true},
		"out of order":          {entries("100644 b", "100644 a"), true},
		"a device":              {entries("60644 a"), true},
		"no mode":               {entries("a"), true},
		"a linked gitmodules":   {entries("120000 .gitmodules"), true},
		"a gitmodules":          {entries("100644 .gitmodules"), false},
		"cut short":             {entries("100644 a")[:20], true},
	} {
		t.Run(name, func(t *testing.T) {
			err := tree(c.tree)
			if c.bad {
				require.ErrorIs(t, err, ErrTree)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// Whatever name git will not take into an index is refused.
func TestNamesThatGitRefusesAreBad(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) error {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.protectHFS", "GIT_CONFIG_VALUE_0=true", "GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
		return cmd.Run()
	}
	require.NoError(t, git("init", "-q"))
	refused := 0
	for _, base := range []string{".", "..", "...", ".git", ".GIT", ".gitx", "git~1", "GIT~1", "git~2", ".gitmodules", "gitmod~1", "GI7EBA~1", "gi7e~12", ".g\u200ci\ufefft", ".gitmodules\u206a", "a", "-"} {
		for _, after := range []string{"", " ", ".", " . .", ":x", "::$INDEX_ALLOCATION", "\\x", "\\.git", "\\..", "\n", "x"} {
			for _, mode := range []string{"100644", "120000"} {
				name := base + after
				if err := git("update-index", "--add", "--cacheinfo", mode, aHash, name); err != nil {
					refused++
					require.Error(t, tree(entries(mode+" "+name)), "git refuses %q", name)
				}
				require.NoError(t, git("read-tree", "--empty"))
			}
		}
	}
	require.Greater(t, refused, 30)
}

func FuzzTree(f *testing.F) {
	f.Add(entries("100644 a", "40000 b"))
	f.Add(entries("40000 .git"))
	f.Add([]byte("100644 a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if tree(b) != nil {
			return
		}
		n := 0
		for len(b) > 0 { // what passes is entries, and each is of a proper name
			head, rest, ok := strings.Cut(string(b), "\x00")
			require.True(t, ok)
			_, name, ok := strings.Cut(head, " ")
			require.True(t, ok)
			require.NotContains(t, name, "/")
			require.NotContains(t, []string{"", ".", "..", ".git"}, strings.ToLower(name))
			require.GreaterOrEqual(t, len(rest), 20)
			b = []byte(rest[20:])
			n++
		}
	})
}
