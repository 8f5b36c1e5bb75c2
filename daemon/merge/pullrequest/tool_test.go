package pullrequest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/git"
)

// tool is a stand-in for a forge's program: a script that notes how it was called.
func tool(t *testing.T, name, script string) (*Tool, func() string) {
	t.Helper()
	dir := t.TempDir()
	path, log := filepath.Join(dir, name), filepath.Join(dir, "log")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n{ pwd; printf '%s\\n' \"$@\"; env; cat; } >"+log+"\n"+script), 0o755))
	own := &git.Own{UID: uint32(os.Geteuid()), Home: dir, Env: []string{"GITLAB_TOKEN=tok"}}
	return &Tool{Own: own, GID: uint32(os.Getegid()), Name: name, path: path}, func() string {
		b, err := os.ReadFile(log)
		require.NoError(t, err)
		return string(b)
	}
}

func TestAMergeRequestIsOpenedWithGlab(t *testing.T) {
	t.Setenv("SECRET_OF_POLISD", "x")
	r := ParseRemote("git@gitlab.com:g/sub/r.git")
	glab, log := tool(t, "glab", "echo 'Creating merge request' >&2\necho https://gitlab.com/g/sub/r/-/merge_requests/12\n")
	got, err := glab.Open(t.Context(), Request{Into: r, From: r, Branch: "agent/x", Target: "main", Title: "--yes", Body: "line\n--fill", Draft: true})
	require.NoError(t, err)
	require.Equal(t, Opened{URL: "https://gitlab.com/g/sub/r/-/merge_requests/12"}, got)
	for _, want := range []string{"/\nmr\ncreate\n--repo=https://gitlab.com/g/sub/r\n", "\n--source-branch=agent/x\n--target-branch=main\n--title=--yes\n--description=line\n--fill\n--yes\n--draft\n", "\nGITLAB_TOKEN=tok\n", "\nHOME=" + glab.Own.Home + "\n"} {
		require.Contains(t, log(), want)
	}
	require.NotContains(t, log(), "SECRET_OF_POLISD", "the daemon's environment is its own")
}

func TestWhatAToolSaysIsUnderstood(t *testing.T) {
	r := ParseRemote("git@github.com:o/r.git")
	req := Request{Into: r, From: r, Branch: "b", Target: "main", Title: "t", Body: "body"}
	for name, tc := range map[string]struct {
		script string
		want   Opened
		failed string
	}{
		"opened":          {"echo https://github.com/o/r/pull/3\n", Opened{URL: "https://github.com/o/r/pull/3"}, ""},
		"open before":     {"echo 'a pull request for branch \"b\" into branch \"main\" already exists:' >&2; echo https://github.com/o/r/pull/2 >&2; exit 1\n", Opened{URL: "https://github.com/o/r/pull/2", Existed: true}, ""},
		"refused":         {"echo 'HTTP 401: Bad credentials' >&2; exit 4\n", Opened{}, "Bad credentials"},
		"names another":   {"echo 'see https://github.com/o/r/pull/1' >&2; exit 1\n", Opened{}, "exit status 1"},
		"says nothing":    {"exit 0\n", Opened{}, "it named no page"},
		"never stops":     {"head -c 10000000 /dev/zero | tr '\\0' x; echo https://github.com/o/r/pull/3\n", Opened{}, "it named no page"},
		"escape sequence": {"printf 'no \\033[31m\\n' >&2; exit 1\n", Opened{}, "no [31m"},
	} {
		t.Run(name, func(t *testing.T) {
			gh, log := tool(t, "gh", tc.script)
			got, err := gh.Open(t.Context(), req)
			require.Equal(t, tc.want, got)
			if tc.failed != "" {
				require.Equal(t, api.CodePushFailed, api.CodeOf(err))
				require.ErrorContains(t, err, tc.failed)
			} else {
				require.NoError(t, err)
			}
			require.True(t, strings.HasSuffix(log(), "body"), "the description is on standard input")
		})
	}
}

func TestAToolThatHangsIsEndedWithItsChildren(t *testing.T) {
	gh, _ := tool(t, "gh", "sleep 1000 & sleep 1000\n")
	r := ParseRemote("git@github.com:o/r.git")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := gh.Open(ctx, Request{Into: r, From: r})
	require.ErrorContains(t, err, "stopped")
}
