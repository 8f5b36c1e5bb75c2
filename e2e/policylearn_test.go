package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func (d *daemon) learned(args ...string) (l api.LearnedPolicy) {
	d.t.Helper()
	require.NoError(d.t, json.Unmarshal([]byte(d.must(append([]string{"--json", "policy", "learn"}, args...)...)), &l))
	return l
}

// checked is policy check, whose exit status is 1 if something would have been refused.
func (d *daemon) checked(role, agent string) (v api.PolicyCheck) {
	d.t.Helper()
	r := d.ctl("--json", "policy", "check", role, agent)
	require.NoError(d.t, json.Unmarshal([]byte(r.stdout), &v), "%s", r)
	require.Equal(d.t, len(v.Refused) > 0, r.code == 1, "%s", r)
	return v
}

// reconfigure adds text to the configuration and waits until a role is known.
func (d *daemon) reconfigure(more, role string) {
	d.t.Helper()
	d.write("polisd.toml", readFile(d.path("polisd.toml"))+more)
	require.NoError(d.t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("role "+role+" is configured", func() bool { return d.ctl("roles", "show", role).code == 0 })
}

// learnedWork is what an agent does in these tests.
const learnedWork = `set -e
cat src/a.txt README.md > /dev/null
echo more >> docs/guide.md
mkdir -p docs/new/deep
for i in 1 2 3 4 5 6 7 8 9; do echo $i > docs/new/deep/f$i; done
mv docs/new/deep/f9 docs/new/deep/g9
printf 'x' > "$(printf 'odd*[name]\nline')"
ln -sf guide.md docs/link
readlink docs/link > /dev/null
rm docs/new/deep/f8
chmod 600 docs/new/deep/f7
truncate -s 0 docs/new/deep/f6
git add -A docs
git commit -qm "work" -- docs
`

// TestARoleIsLearnedFromWhatAnAgentDoes: what the lists would refuse is allowed and recorded, what protects
// others is not; the learned role allows the same work again without a refusal, and nothing else.
func TestARoleIsLearnedFromWhatAnAgentDoes(t *testing.T) {
	in := newInternet(t)
	in.name("x.test", "203.0.113.1")
	in.name("y.test", "203.0.113.2")
	d := in.startBehind("", "[locks]\ntemp_files = false\n[roles.docs]\npolicy = \"record\"\nread = [\"docs/**\"]\nwrite = [\"docs/**\"]\ndeny = [\"secret/**\"]\n[roles.docs.network]\negress = [\"x.test\"]\n[roles.narrow]\nread = [\"**\"]\nwrite = [\"src/**\"]\n")
	d.up()
	a := d.add("alice", "--role", "docs")
	require.True(t, a.Recording)
	require.Contains(t, d.must("status"), "recording   alice")
	d.add("bob")
	d.sh("bob", "echo mine >> main.txt")

	d.sh("alice", learnedWork)
	require.NotZero(t, d.exec("alice", "cat", "secret/key.txt").code, "deny holds")
	require.NotZero(t, d.exec("alice", "sh", "-c", "echo x >> main.txt").code, "leases hold")
	d.gets("alice", "x.test", "internet 203.0.113.1")
	d.noGet("alice", "y.test", noSuchName)

	check := func() api.LearnedPolicy {
		l := d.learned("alice", "--role", "learned")
		require.Empty(t, l.Incomplete)
		require.Contains(t, l.Policy.Read, "/src/a.txt")
		require.Contains(t, l.Policy.Read, "/README.md")
		require.NotContains(t, l.TOML, "main.txt")
		require.NotContains(t, l.TOML, "src/b.txt")
		require.Contains(t, l.Policy.Write, "/docs/guide.md")
		require.Contains(t, l.Policy.Write, "/docs/new/deep/**")
		require.Contains(t, l.Policy.Write, `/odd\*\[name][! -~]line`)
		require.Equal(t, []string{"secret/**"}, l.Policy.Deny)
		require.Equal(t, []string{"x.test"}, l.Egress)
		require.Contains(t, l.TOML, "# Not allowed: read secret/key.txt")
		require.Contains(t, l.TOML, "# Not allowed: resolve y.test.")
		require.Equal(t, l.TOML, d.must("policy", "learn", "alice", "--role", "learned"))
		return l
	}
	first := check()
	var refused []string
	for _, r := range d.checked("narrow", "alice").Refused {
		refused = append(refused, fmt.Sprintf("%s %v", r.Path+r.Name, r.Write))
	}
	require.Contains(t, refused, "docs/guide.md true")
	require.NotContains(t, refused, "src/a.txt false")

	// The record survives polisd, and the end of the agent.
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	require.Equal(t, first.Policy, check().Policy)
	d.sh("alice", "git checkout -q HEAD~1; git clean -qfd; git checkout -qB agent/alice")
	before := d.learned("alice").Policy
	d.must("agents", "stop", "alice")
	l := d.learned("alice", "--role", "learned")
	require.Equal(t, before, l.Policy)
	require.Empty(t, l.Incomplete, "the shim handed over everything")

	// The learned role allows the same work.
	d.reconfigure(l.TOML, "learned")
	v := d.checked("learned", "alice")
	require.Equal(t, deniedThen(v), v.Refused, "only what was refused then, too")
	d.must("agents", "set", "alice", "--role", "learned")
	a, _ = d.agent("alice")
	require.False(t, a.Recording)
	d.must("agents", "start", "alice")
	d.sh("alice", learnedWork)
	for _, w := range d.refusals("alice") {
		t.Errorf("refused: %+v", w)
	}
	d.gets("alice", "x.test", "internet 203.0.113.1")
	require.NotZero(t, d.exec("alice", "cat", "src/b.txt").code)
	require.Equal(t, api.CodeUndeclaredRead, d.refusalOf("alice", "src/b.txt").Code)
	require.NotZero(t, d.exec("alice", "sh", "-c", "echo x > other.txt").code)
	require.Equal(t, api.CodeUndeclaredWrite, d.refusalOf("alice", "other.txt").Code)
	require.Equal(t, l.Policy, d.learned("alice", "--role", "learned").Policy, "what it does now is not recorded")
	d.must("agents", "remove", "alice", "--force")
	require.Equal(t, l.Policy, d.learned("alice", "--role", "learned", "--run", "last").Policy, "until its receipts are removed")
}

func deniedThen(v api.PolicyCheck) (out []api.PolicyRefusal) {
	for _, r := range v.Refused {
		if r.Refused {
			out = append(out, r)
		}
	}
	return out
}

// TestRecordModeEndsWithTheConfiguration, at once and also for an agent that runs; and a shim that was killed
// leaves a record that is known to be incomplete.
func TestRecordModeEndsWithTheConfiguration(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.docs]\nwrite = [\"docs/**\"]\n[agents.alice]\npolicy = \"record\"\n"})
	d.up()
	d.add("alice", "--role", "docs")
	d.add("bob", "--role", "docs")
	require.NotZero(t, d.exec("bob", "sh", "-c", "echo x > main.txt").code, "bob is not in record mode")
	d.sh("alice", "echo x > main.txt; git commit -qam main")
	d.must("merge", "alice")

	was, _ := d.agent("alice")
	shim := was.ShimPID
	require.NoError(t, syscall.Kill(shim, syscall.SIGKILL))
	d.eventually("the agent has failed", func() bool {
		a, _ := d.agent("alice")
		return a.Status == api.StatusError
	})
	d.must("agents", "start", "alice")
	d.sh("alice", "echo y > other.txt")
	l := d.learned("alice")
	require.Contains(t, strings.Join(l.Incomplete, "\n"), "ended unexpectedly")
	require.Subset(t, l.Policy.Write, []string{"/main.txt", "/other.txt"})

	d.write("polisd.toml", strings.Replace(readFile(d.path("polisd.toml")), `policy = "record"`, `policy = "enforce"`, 1))
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("the lists restrict alice again", func() bool { return d.exec("alice", "sh", "-c", "echo z > third.txt").code != 0 })
	a, _ := d.agent("alice")
	require.False(t, a.Recording)
}

// TestManyNamesMakeACoarseRecord, not a large one: what an agent makes up is bounded.
func TestManyNamesMakeACoarseRecord(t *testing.T) {
	d := startDaemon(t, options{config: "[agents.alice]\npolicy = \"record\"\n"})
	d.up()
	d.add("alice")
	d.sh("alice", `mkdir many; cd many; seq 21000 | xargs touch; cd ..; echo x >> docs/guide.md`)
	d.eventually("everything is stored", func() bool {
		l := d.learned("alice")
		return strings.Join(l.Policy.Write, " ") == "/docs/guide.md /many/**" && len(l.Incomplete) > 0
	})
}
