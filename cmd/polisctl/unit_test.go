package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

// codesOfAPI reads the error codes from the source of package api, so that a
// new one cannot be forgotten here.
func codesOfAPI(t *testing.T) []api.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../daemon/api/errors.go", nil, 0)
	require.NoError(t, err)
	var codes []api.Code
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, "Code") {
			return true
		}
		text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		codes = append(codes, api.Code(text))
		return true
	})
	require.Greater(t, len(codes), 40)
	return codes
}

func TestEveryCodeHasOneStatus(t *testing.T) {
	status := map[api.Code]int{}
	for _, row := range exitTable() {
		for _, c := range row.Codes {
			require.NotContains(t, status, c, "code is in the table twice")
			status[c] = row.Status
		}
	}
	for _, c := range codesOfAPI(t) {
		require.Contains(t, status, c, "code is missing in exitTable")
		require.Equal(t, status[c], exitOf(nil, api.Errorf(c, "x")))
		require.Equal(t, status[c], exitOf(nil, fmt.Errorf("wrapped: %w", api.Errorf(c, "x"))))
	}
	require.Len(t, status, len(codesOfAPI(t)))
}

// TestEveryCodeIsInTheReference once, with words that say what and what to do.
func TestEveryCodeIsInTheReference(t *testing.T) {
	var codes []api.Code
	groups := map[string]bool{}
	last := ""
	for _, c := range api.Codes() {
		codes = append(codes, c.Code)
		require.True(t, strings.HasSuffix(c.About, ".") && strings.ContainsAny(c.Do[len(c.Do)-1:], ".?"), c.Code)
		require.NotContains(t, c.About+c.Do, "|", "it stands in a table")
		require.False(t, c.Group != last && groups[c.Group], "%s: the groups are in one piece", c.Code)
		last, groups[c.Group] = c.Group, true
	}
	require.ElementsMatch(t, codesOfAPI(t), codes, "daemon/api/codes.go has the reference")
	page := string(errorsPage())
	for _, c := range codes {
		require.Contains(t, page, "| `"+string(c)+"` | ")
	}
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: func(string) string { return "" }, now: time.Now}
	topic := a.exitCodesCmd().Long
	for _, c := range codes {
		require.Contains(t, topic, " "+string(c))
	}
}

func TestUnknownFailuresAreGeneral(t *testing.T) {
	require.Equal(t, exitFailure, exitOf(nil, errors.New("x")))
	require.Equal(t, exitFailure, exitOf(nil, api.Errorf("NEW_CODE", "of a newer daemon")))
	require.Equal(t, 137, exitOf(nil, childStatus(137)))
	require.Equal(t, 255, exitOf(nil, childStatus(-1)))
}

// TestGeneratedFilesAreFresh fails when the committed man pages and
// completions are not what the source makes.
func TestGeneratedFilesAreFresh(t *testing.T) {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: func(string) string { return "" }, now: time.Now}
	files, err := generate(a.root())
	require.NoError(t, err)
	require.Greater(t, len(files), 30)
	if *update {
		require.NoError(t, writeGenerated("../..", files))
	}
	const top, again = "../..", "run: make docs"
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(top, name))
		require.NoError(t, err, again)
		require.Equal(t, string(want), string(got), "%s is stale; %s", name, again)
		require.NotContains(t, string(want), "1970")
	}
	pages, err := filepath.Glob(filepath.Join(top, manDir, "polisctl*.1"))
	require.NoError(t, err)
	for _, p := range pages {
		rel, err := filepath.Rel(top, p)
		require.NoError(t, err)
		require.Contains(t, files, rel, "%s is of no verb; %s", rel, again)
	}
}

func TestWriteGeneratedRemovesStalePages(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, manDir), 0o755))
	for _, n := range []string{"polisctl-gone.1", "polisd.8"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, manDir, n), nil, 0o644))
	}
	require.NoError(t, writeGenerated(dir, map[string][]byte{manDir + "/polisctl.1": []byte("x")}))
	require.NoFileExists(t, filepath.Join(dir, manDir, "polisctl-gone.1"))
	require.FileExists(t, filepath.Join(dir, manDir, "polisd.8"))
	require.FileExists(t, filepath.Join(dir, manDir, "polisctl.1"))
}

func TestEveryVerbIsDescribed(t *testing.T) {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: func(string) string { return "" }, now: time.Now}
	root := a.root()
	files, err := generate(root)
	require.NoError(t, err)
	for name := range files {
		require.True(t, name == "units/polisd.toml" || strings.HasPrefix(name, "docs/") || strings.HasPrefix(name, completionDir), name)
	}
	for _, path := range []string{"agents add", "agents exec", "ports list", "lock", "up"} {
		cmd, _, err := root.Find(strings.Fields(path))
		require.NoError(t, err)
		require.NotEmpty(t, cmd.Short)
		require.Contains(t, files, filepath.Join(manDir, "polisctl-"+strings.ReplaceAll(path, " ", "-")+".1"))
	}
}

func TestMemoryIsReadWithUnits(t *testing.T) {
	for in, want := range map[string]int{"": 0, "512": 512, "512M": 512, "512mb": 512, "512MiB": 512, "2G": 2048, "2GB": 2048, "16": 16} {
		got, err := parseMemory(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"0", "-1", "+5", "1", "1.5G", "512KB", "G", "0x10", "99999999999999999999", "9007199254740993G", " 512", "5 12"} {
		_, err := parseMemory(in)
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err), in)
	}
}

func TestRepositories(t *testing.T) {
	cwd, err := os.Getwd()
	require.NoError(t, err)
	for in, want := range map[string]string{
		".": cwd, "x/y": cwd + "/x/y", "/srv/x/../y": "/srv/y", "./a:b": cwd + "/a:b", "doc.go": cwd + "/doc.go",
		"https://u:p@h/x.git": "https://u:p@h/x.git", "ssh://h/x": "ssh://h/x", "file:///srv/x": "file:///srv/x",
		"git@h:x.git": "git@h:x.git", "h:x.git": "h:x.git",
	} {
		got, err := repository(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"", "-x", "ext::sh", "a\x00b", "gopher://x", "javascript://x", strings.Repeat("x", 5000), "https://u:sec\x7fret@h/"} {
		_, err := repository(in)
		require.Error(t, err, in)
		require.NotContains(t, err.Error(), "sec", "a password must not be printed")
	}
}

func TestCleanTextIsPrintable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		out := clean(s)
		require.Negative(t, strings.IndexFunc(out, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", out)
		require.Equal(t, out, clean(out), "what is clean stays as it is")
	})
	require.Equal(t, `a\x1b[31m\u202eb\xff`, clean("a\x1b[31m\u202eb\xff"))
	require.Equal(t, "a\nb", cleanText("a\nb"))
	require.Equal(t, "äöü – ok", clean("äöü – ok"))
}

func TestDetachKeysAreFoundHoweverTheyArrive(t *testing.T) {
	key := rapid.SampledFrom([]byte{'a', detachFirst, detachSecond})
	rapid.Check(t, func(t *rapid.T) {
		typed := rapid.SliceOf(key).Draw(t, "typed")
		// The model: everything before the first Ctrl-P Ctrl-Q; a Ctrl-P that
		// is last is held back.
		want, found := typed, false
		if i := bytes.Index(typed, []byte{detachFirst, detachSecond}); i >= 0 {
			want, found = typed[:i], true
		} else if bytes.HasSuffix(typed, []byte{detachFirst}) {
			want = typed[:len(typed)-1]
		}
		var d detacher
		var sent []byte
		detached := false
		for rest := typed; len(rest) > 0 && !detached; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "chunk")
			var out []byte
			out, detached = d.filter(rest[:n])
			sent = append(sent, out...)
			rest = rest[n:]
		}
		require.Equal(t, found, detached)
		require.Equal(t, string(want), string(sent))
	})
}

func TestRepositoryPaths(t *testing.T) {
	real := t.TempDir()
	require.NoError(t, os.MkdirAll(real+"/proj/src", 0o755))
	require.NoError(t, os.Symlink(real+"/proj", real+"/link"))
	ws := []api.Workspace{{Name: "one", Project: real + "/link"}, {Name: "two", Project: "/srv/two/project"}, {Name: "nested", Project: "/srv/two/project/sub"}}
	for _, tc := range []struct {
		name, only, cwd, typed string
		workspace, path        string
		code                   api.Code
	}{
		{name: "from elsewhere it is of the top", cwd: "/", typed: "src/a.go", path: "src/a.go"},
		{name: "cleaned", cwd: "/", typed: "./src//b/../a.go", path: "src/a.go"},
		{name: "named workspace", only: "two", cwd: "/", typed: "a", workspace: "two", path: "a"},
		{name: "from below the project", cwd: "/srv/two/project/src", typed: "a.go", workspace: "two", path: "src/a.go"},
		{name: "up but inside", cwd: "/srv/two/project/src", typed: "../a.go", workspace: "two", path: "a.go"},
		{name: "innermost project", cwd: "/srv/two/project/sub", typed: "a", workspace: "nested", path: "a"},
		{name: "through a link", cwd: real + "/proj/src", typed: "a", workspace: "one", path: "src/a"},
		{name: "absolute", cwd: "/", typed: "/srv/two/project/a", workspace: "two", path: "a"},
		{name: "absolute through a link", cwd: "/", typed: real + "/link/src", workspace: "one", path: "src"},
		{name: "legal dots", cwd: "/", typed: "a..b", path: "a..b"},
		{name: "no current directory", cwd: "", typed: "a", path: "a"},
		{name: "leaves", cwd: "/", typed: "../x", code: api.CodePathTraversal},
		{name: "leaves from inside", cwd: "/srv/two/project", typed: "../x", code: api.CodePathTraversal},
		{name: "absolute elsewhere", cwd: "/", typed: "/etc/passwd", code: api.CodePathTraversal},
		{name: "sibling with the same start", cwd: "/", typed: "/srv/two/project2/x", code: api.CodePathTraversal},
		{name: "absolute in another workspace", only: "one", cwd: "/", typed: "/srv/two/project/a", code: api.CodePathTraversal},
		{name: "whole", cwd: "/", typed: ".", code: api.CodeBadRequest},
		{name: "whole from inside", cwd: "/srv/two/project", typed: ".", code: api.CodeBadRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, p, err := repositoryPath(ws, tc.only, tc.cwd, tc.typed)
			if tc.code != "" {
				require.Equal(t, tc.code, api.CodeOf(err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.workspace, w)
			require.Equal(t, tc.path, p)
		})
	}
}

func TestRepositoryPathsNeverLeave(t *testing.T) {
	ws := []api.Workspace{{Name: "w", Project: "/srv/w/project"}}
	part := rapid.SampledFrom([]string{"..", ".", "a", "srv", "w", "project", ""})
	rapid.Check(t, func(t *rapid.T) {
		typed := strings.Join(rapid.SliceOfN(part, 1, 6).Draw(t, "parts"), "/")
		cwd := rapid.SampledFrom([]string{"/", "/srv/w", "/srv/w/project", "/srv/w/project/a", ""}).Draw(t, "cwd")
		if typed == "" {
			return
		}
		_, p, err := repositoryPath(ws, "", cwd, typed)
		if err != nil {
			return
		}
		require.NotEmpty(t, p)
		require.False(t, p == "." || p == ".." || strings.HasPrefix(p, "../") || strings.HasPrefix(p, "/"), "%q from %q gives %q", typed, cwd, p)
	})
}

func TestSpansAndSizes(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 5 * time.Second: "5s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m",
		2 * time.Hour: "2h", 47 * time.Hour: "47h", 48 * time.Hour: "2d",
	} {
		require.Equal(t, want, span(d))
	}
	for n, want := range map[int64]string{-1: "-", 0: "-", 5: "5B", 2048: "2.0KiB", 5 << 20: "5.0MiB", 3 << 30: "3.0GiB", 1 << 62: "4.0EiB"} {
		require.Equal(t, want, size(n))
	}
}
