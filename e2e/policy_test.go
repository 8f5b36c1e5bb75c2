package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestPolicyIsEnforcedAtTheCall(t *testing.T) {
	d := startDaemon(t, options{config: `[roles.docs]
read = ["**"]
write = ["docs/**", "/*.md"]
deny = ["secret/**"]
[roles.narrow]
read = ["src/**", "main.txt"]
write = ["src/deep/**"]
hide = ["docs/"]
`})
	d.up()
	d.add("docs", "--role", "docs")
	d.add("narrow", "--role", "narrow")
	for _, c := range []struct{ agent, script, want string }{
		{"docs", "echo x >> docs/guide.md", ""},
		{"docs", "echo x > docs/new/deep.md", "nonexistent"}, // it does not exist: an ordinary error
		{"docs", "mkdir docs/new; echo x > docs/new/deep.md", ""},
		{"docs", "echo x >> README.md", ""},
		{"docs", "cat main.txt", ""},
		{"docs", "echo x >> main.txt", "Permission denied"},
		{"docs", "echo x > src/fresh.txt", "Permission denied"},
		{"docs", "echo x > fresh.txt; mv fresh.txt kept.txt", "Permission denied"}, // a temporary file beside *.md
		{"docs", "rm main.txt", "Permission denied"},
		{"docs", "mv docs/guide.md src/guide.md", "Permission denied"},
		{"docs", "mv main.txt docs/main.txt", "Permission denied"},
		{"docs", "ln main.txt docs/link.txt", "Permission denied"},
		{"docs", "cat secret/key.txt", "Permission denied"},
		{"docs", "ln secret/key.txt docs/key.txt", "Permission denied"},
		{"docs", "mv secret docs/secret", "Permission denied"},
		{"docs", "ln -s ../secret/key.txt docs/key; cat docs/key", "Permission denied"},
		{"docs", "chmod 777 main.txt", "ermi"},
		{"docs", "touch main.txt", "Permission denied"},
		{"docs", "truncate -s 0 main.txt", "Permission denied"},
		{"docs", "setfattr -n user.x -v y main.txt", "Permission denied"},
		{"docs", "mkdir newdir", "Permission denied"},
		{"docs", "ln -s /etc/passwd pw", "Permission denied"},
		{"narrow", "cat src/a.txt main.txt", ""},
		{"narrow", "cat README.md", "Permission denied"},
		{"narrow", "cat docs/guide.md", "No such file"},
		{"narrow", "ls | grep -q docs && exit 1 || exit 0", ""},
		{"narrow", "echo x > src/deep/er/c.txt", ""},
		{"narrow", "echo x > src/a.txt", "Permission denied"},
		{"narrow", "cat secret/key.txt", "Permission denied"},
	} {
		t.Run(c.agent+": "+c.script, func(t *testing.T) {
			r := d.exec(c.agent, "env", "LC_ALL=C", "sh", "-ec", c.script)
			if c.want == "" {
				require.Zero(t, r.code, r.String())
				return
			}
			require.NotZero(t, r.code, r.String())
			require.Contains(t, r.stderr, c.want)
		})
	}
	a, _ := d.agent("docs")
	require.NotNil(t, a.Counters)
	require.Positive(t, a.Counters.WriteDenied)
	require.Positive(t, a.Counters.ReadDenied)
	text := d.must("agents", "why", "docs")
	require.Contains(t, text, string(api.CodeUndeclaredWrite))
	require.Contains(t, d.why("docs", "secret/key.txt"), "secret/key.txt")
	require.Contains(t, d.must("agents", "policy", "docs"), "secret/**")
	require.Equal(t, "one\ntwo\nthree\n", d.sh("docs", "cat main.txt"))
	require.NotZero(t, d.ctl("agents", "add", "other", "--base", "custom", "--role", "nonesuch").code)
}

func TestScratchIsPrivateAndTakesNoLease(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--temp", "--read", "**", "--write", "**")
	d.add("bob", "--temp", "--read", "**", "--write", "**")
	d.sh("alice", `test -d "$TMPDIR"; echo x > "$TMPDIR/same"; ls -A "$TMPDIR"`)
	require.NotContains(t, d.sh("bob", `ls -A "$TMPDIR"`), "same")
	d.sh("bob", `echo y > "$TMPDIR/same"`)
	require.Empty(t, d.locks())
	require.Empty(t, strings.TrimSpace(d.sh("alice", "git status --porcelain")))
}

// git tracks files that the rules withhold from an agent. git must not fail on them, and must not
// record them as deleted.
func TestGitWorksBesideFilesThatAreKeptFromTheAgent(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--deny", "secret/**", "--hide", "docs/")
	d.sh("alice", "test -z \"$(git status --porcelain)\"; echo more >> main.txt; git commit -qam 'beside the secret'; git add -A; test -z \"$(git status --porcelain)\"")
	changed := git(t, d.path("ws", ".polis", "bare-repo.git"), "diff", "--name-status", "main", "agent/alice")
	require.Equal(t, "M\tmain.txt\n", changed)
}

// A refusal names the rule that decided, and who can change it.
func TestARefusedWriteNamesTheRuleThatIsMissing(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--read", "**", "--write", "docs/**")
	require.NotZero(t, d.exec("alice", "sh", "-c", "echo x >> main.txt").code)
	why := d.sh("alice", "cat /run/polis/why")
	require.Contains(t, why, "no rule to write names it, only read")
	require.Contains(t, why, "ask the administrator")
	require.NotContains(t, why, "commander")
	// What it names is enough.
	d.must("agents", "set", "alice", "--write", "main.txt")
	d.sh("alice", "echo x >> main.txt")
}

// A program that meets several refusals at once reads each of them in why as soon as it has the
// error.
func TestWhyHasEachOfSeveralRefusalsAtOnce(t *testing.T) {
	needProgram(t, "python3")
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--deny", "*.pem")
	require.Equal(t, "ok\n", d.sh("alice", `exec python3 -c "
for n in range(10):
    name = 'k%d.pem' % n
    try:
        open(name, 'w')
        raise SystemExit(name + ' was made')
    except PermissionError:
        pass
    if name not in open('/run/polis/why').read():
        raise SystemExit(name + ' is not in why')
print('ok')
"`))
}
