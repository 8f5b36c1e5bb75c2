package remote

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/git"
)

func TestAddressesHoldNoSecret(t *testing.T) {
	for full, want := range map[string]string{
		"https://u:p@example.org/x.git":    "https://example.org/x.git",
		"https://token@example.org/x.git":  "https://example.org/x.git",
		"ssh://git:p@example.org:22/x.git": "ssh://git@example.org:22/x.git",
		"git@example.org:x.git":            "git@example.org:x.git",
		"/srv/x.git":                       "/srv/x.git",
		"https://u:p%zz@example.org/":      "(not a URL)",
	} {
		require.Equal(t, want, clean(full), full)
	}
	for s, path := range map[string]bool{"/x": true, "../x": true, "./a:b": true, "host:x": false, "u@host:x": false, "https://h/x": false, "x": true} {
		require.Equal(t, path, isPath(s), s)
	}
}

func TestFailuresHoldNoSecret(t *testing.T) {
	r := Remote{Name: "origin", full: "https://user:pass%21word@example.org/x.git"}
	for _, text := range []string{"fatal: unable to access 'https://user:pass%21word@example.org/x.git/': 403", "fatal: pass!word", "fatal: other"} {
		err := failed(r, "fetch from", &git.ExitError{Args: []string{"fetch"}, Code: 128, Stderr: text}, "other")
		require.Equal(t, api.CodeUnavailable, api.CodeOf(err))
		for _, secret := range []string{"pass%21word", "pass!word", "other"} {
			require.NotContains(t, err.Error(), secret)
		}
	}
	require.ErrorContains(t, failed(r, "ask", errors.New("x")), "ask origin: x")
}

func TestParseRefs(t *testing.T) {
	a, b := strings.Repeat("a", 40), strings.Repeat("b", 40)
	got := parseRefs("ref: refs/heads/main\tHEAD\n" + a + "\tHEAD\n" + a + "\trefs/heads/main\n" + b + "\trefs/tags/v1\n" + a + "\trefs/tags/v1^{}\n" + a + "\trefs/pull/1/head\nx\trefs/heads/y\n" + a + "\trefs/heads/a b\nnoise\n")
	require.Equal(t, api.RemoteResponse{Head: "refs/heads/main", Refs: []api.RemoteRef{{Name: "refs/heads/main", Commit: a}, {Name: "refs/tags/v1", Commit: b}}}, got)
}

func TestParsePush(t *testing.T) {
	refused := map[string]string{}
	done := parsePush("To /x\n=\taa:refs/heads/a\t[up to date]\n \tbb:refs/heads/b\tb..c\n+\tcc:refs/heads/c\tx...y (forced update)\n-\t:refs/heads/d\t[deleted]\n*\tee:refs/tags/e\t[new tag]\n!\tff:refs/heads/f\t[rejected] (non-fast-forward)\n!\tgg:refs/heads/g\t[remote rejected] (pre-receive hook declined)\nDone\n", refused)
	require.Equal(t, map[string]string{"refs/heads/f": "non-fast-forward", "refs/heads/g": "pre-receive hook declined"}, refused)
	require.Len(t, done, 5)
	require.False(t, done["refs/heads/f"])
}

func FuzzAnswersOfGit(f *testing.F) {
	f.Add("!\tff:refs/heads/f\t[rejected] (x)\n")
	f.Fuzz(func(t *testing.T, s string) {
		refused := map[string]string{}
		for ref := range parsePush(s, refused) {
			require.Contains(t, s, ref)
		}
		for _, r := range parseRefs(s).Refs {
			require.True(t, git.IsOID(r.Commit))
			require.NotContains(t, r.Name, " ")
		}
	})
}
