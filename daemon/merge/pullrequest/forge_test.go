package pullrequest

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRemotesAreReadAndTheirPagesFound(t *testing.T) {
	for _, tc := range []struct {
		url, repo string
		kind      Kind
		page      string
	}{
		{"git@github.com:o/r.git", "github.com/o/r", GitHub, "https://github.com/o/r/compare/main...agent/x%23y?expand=1"},
		{"https://github.com/o/r", "github.com/o/r", GitHub, "https://github.com/o/r/compare/main...agent/x%23y?expand=1"},
		{"ssh://git@ssh.github.com:443/o/r.git", "ssh.github.com/o/r", GitHub, "https://github.com/o/r/compare/main...agent/x%23y?expand=1"},
		{"https://github.example.com:8443/o/r.git", "github.example.com:8443/o/r", GitHub, "https://github.example.com:8443/o/r/compare/main...agent/x%23y?expand=1"},
		{"git@gitlab.com:g/sub/r.git", "gitlab.com/g/sub/r", GitLab, "https://gitlab.com/g/sub/r/-/merge_requests/new?merge_request%5Bsource_branch%5D=agent%2Fx%23y&merge_request%5Btarget_branch%5D=main"},
		{"ssh://git@gitlab.example.com:2222/g/r.git", "gitlab.example.com/g/r", GitLab, "https://gitlab.example.com/g/r/-/merge_requests/new?merge_request%5Bsource_branch%5D=agent%2Fx%23y&merge_request%5Btarget_branch%5D=main"},
		{"git@bitbucket.org:t/r.git", "bitbucket.org/t/r", Bitbucket, "https://bitbucket.org/t/r/pull-requests/new?dest=main&source=agent%2Fx%23y"},
		{"https://codeberg.org/o/r.git", "codeberg.org/o/r", Gitea, "https://codeberg.org/o/r/compare/main...agent/x%23y"},
		{"http://gitea.local:3000/o/r.git/", "gitea.local:3000/o/r", Gitea, "http://gitea.local:3000/o/r/compare/main...agent/x%23y"},
		{"git@git.sr.ht:~o/r", "git.sr.ht/~o/r", Sourcehut, "https://git.sr.ht/~o/r/log/agent/x%23y"},
		{"git@ssh.dev.azure.com:v3/org/p/r", "dev.azure.com/org/p/_git/r", Azure, "https://dev.azure.com/org/p/_git/r/pullrequestcreate?sourceRef=agent%2Fx%23y&targetRef=main"},
		{"https://me@dev.azure.com/org/p/_git/r", "dev.azure.com/org/p/_git/r", Azure, "https://dev.azure.com/org/p/_git/r/pullrequestcreate?sourceRef=agent%2Fx%23y&targetRef=main"},
		{"https://notgithub.com/o/r", "notgithub.com/o/r", Unknown, ""},
		{"git@host:r.git", "host/r", Unknown, ""},
		{"/srv/r.git", "/", Unknown, ""},
		{"file:///srv/r.git", "/", Unknown, ""},
		{"../r.git", "/", Unknown, ""},
		{"git@github.com:o/\nr", "/", Unknown, ""},
	} {
		r := ParseRemote(tc.url)
		require.Equal(t, tc.repo, r.Repository(), tc.url)
		require.Equal(t, tc.kind, r.Kind, tc.url)
		require.Equal(t, tc.page, r.CompareURL("main", r, "agent/x#y"), tc.url)
	}
}

func TestAForkIsNamedByItsOwner(t *testing.T) {
	up, fork := ParseRemote("git@github.com:up/r.git"), ParseRemote("git@github.com:me/r.git")
	require.Equal(t, "https://github.com/up/r/compare/main...me:b?expand=1", up.CompareURL("main", fork, "b"))
	gh, stdin := (&Tool{Name: "gh"}).arguments(Request{Into: up, From: fork, Branch: "b", Target: "main", Title: "--web", Body: "text", Draft: true})
	require.Equal(t, []string{"pr", "create", "--repo=github.com/up/r", "--head=me:b", "--base=main", "--title=--web", "--body-file=-", "--draft"}, gh)
	require.Equal(t, "text", stdin)
	glab, _ := (&Tool{Name: "glab"}).arguments(Request{Into: up, From: fork, Branch: "b", Target: "main", Title: "t", Body: "-x"})
	require.Contains(t, glab, "--description=-x")
	require.Contains(t, glab, "--head=me/r")
}

func TestForgesHaveNames(t *testing.T) {
	for in, want := range map[string]Kind{"": Unknown, "GitHub": GitHub, "forgejo": Gitea, "sourcehut": Sourcehut} {
		k, err := ParseKind(in)
		require.NoError(t, err)
		require.Equal(t, want, k)
	}
	_, err := ParseKind("cvs")
	require.ErrorContains(t, err, "cvs")
}

func TestPasswordsAreNotShown(t *testing.T) {
	for in, want := range map[string]string{
		"https://u:hush@h/o/r": "https://h/o/r", "https://hush@h/o/r": "https://h/o/r", "ssh://git@h/o/r": "ssh://git@h/o/r",
		"git@h:o/r": "git@h:o/r", "/srv/r": "/srv/r",
		// No URLs by the rules, and git takes them.
		"https://u:hu%sh@h/o/r": "https://h/o/r", "https://u:hu^sh@h/o/r": "https://h/o/r", "https://h:x/o": "https://h:x/o",
	} {
		require.Equal(t, want, Display(in))
	}
	require.NotContains(t, hide("fatal: unable to access 'https://u:hush@h/o/r/': with hush", "https://u:hush@h/o/r"), "hush")
	require.NotContains(t, hide("fatal: unable to access 'https://u:hu%sh@h/o/r/': with hu%sh", "https://u:hu%sh@h/o/r"), "hu%sh")
}

func TestTheTitleReportsWhatWasDone(t *testing.T) {
	one := []Commit{{Subject: "Fix the parser", Body: "Because.\n"}}
	two := append(one, Commit{Subject: "Test it"})
	for name, tc := range map[string]struct {
		work Work
		want string
	}{
		"one commit":               {Work{Commits: one, Tasks: []string{"do things"}}, "Fix the parser"},
		"more: the task":           {Work{Commits: two, Tasks: []string{"\n# Make it fast\nplease", "continue"}}, "Make it fast"},
		"no task: the last commit": {Work{Commits: two}, "Test it"},
		"nothing but a branch":     {Work{Branch: "agent/x", Commits: []Commit{{}, {}}}, "Changes of agent/x"},
		"long":                     {Work{Commits: two, Tasks: []string{strings.Repeat("word ", 50)}}, strings.TrimSpace(strings.Repeat("word ", 19)) + "…"},
		"hostile":                  {Work{Commits: two, Tasks: []string{"a\x1b[31m\u202eb"}}, "a[31mb"},
	} {
		require.Equal(t, tc.want, tc.work.Title(), name)
	}
	body := Work{Agent: "claude", Branch: "agent/claude", Tasks: []string{"Make it fast\nplease"}, Commits: two, More: 3, Range: "aaaa..bbbb"}.Body()
	require.Equal(t, "## Task\n\n> Make it fast\n> please\n\n## Commits\n\n- Fix the parser\n- Test it\n- and 3 more: `git log --no-merges aaaa..bbbb` lists all\n\nFrom branch `agent/claude` of agent claude.\n", body)
	require.Contains(t, Work{Tasks: []string{"Make it fast", "Test it"}, Commits: two}.Body(), "## Tasks\n\n> Make it fast\n\n> Test it\n\n## Commits")
	require.Equal(t, "Because.\n\nFrom branch `b` of agent a.\n", Work{Agent: "a", Branch: "b", Commits: one}.Body())
}

func TestTextsAreBoundedAndPrintable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.SliceOfN(rapid.Byte(), 0, 300)
		w := Work{Agent: "a", Branch: "b", Tasks: []string{strings.Repeat(string(bytes.Draw(t, "task")), rapid.IntRange(0, 300).Draw(t, "times"))}, Commits: []Commit{{Subject: string(bytes.Draw(t, "subject"))}, {}}}
		for _, s := range []string{w.Title(), w.Body()} {
			require.NotEmpty(t, s)
			require.True(t, utf8.ValidString(s))
			require.Negative(t, strings.IndexFunc(s, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }))
		}
		require.LessOrEqual(t, utf8.RuneCountInString(w.Title()), maxTitle)
		require.NotContains(t, w.Title(), "\n")
		require.LessOrEqual(t, len(w.Body()), maxBody+20)
	})
}

func FuzzParseRemote(f *testing.F) {
	for _, s := range []string{"git@github.com:o/r.git", "https://u:p@h:1/o/r", "ssh://[::1]:22/x", "git@ssh.dev.azure.com:v3/a/b/c", "-x", ":", "a:", "https://u:p%@h/r"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		r := ParseRemote(raw)
		u := r.CompareURL("main", r, "b")
		if u != "" {
			require.True(t, strings.HasPrefix(u, "https://") || strings.HasPrefix(u, "http://"))
			require.Negative(t, strings.IndexFunc(u, func(r rune) bool { return r < ' ' || r == 0x7f }))
		}
		if rest, ok := strings.CutPrefix(Display(raw), "https://"); ok {
			host, _, _ := strings.Cut(rest, "/")
			require.NotContains(t, host, "@")
		}
	})
}
