package e2e

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSeveralCommanders: the first answer applies, and the other terminal shows it.
func TestSeveralCommanders(t *testing.T) {
	needProgram(t, "tmux")
	d := startDaemon(t, options{})
	d.up()
	d.worker("alice")
	one := d.tmux("100", "40", "NO_COLOR=1")
	two := one.second("100", "40")
	one.line("polisctl approvals watch")
	one.shows(`no open questions; waiting`)
	two.line("polisctl tui")
	two.shows(`polis  1 agent`, `live`)
	two.key("A")
	two.shows(`no agent asks for anything`)

	asked := d.asking("alice", "polisctl ask -- make one")
	id := d.question("alice").ID
	one.shows(`question `+id+` of agent alice`, `make one`, `\[a\]pprove once`)
	two.shows(`> `+id, `make one`, `add the rule bash\(make one\)`)
	one.key("a")
	one.shows(`approved ` + id)
	require.Zero(t, (<-asked).code)
	two.shows(`question `+id+` is answered or withdrawn`, `no agent asks for anything`)

	asked = d.asking("alice", "polisctl ask -- make two")
	id = d.question("alice").ID
	one.shows(`question ` + id + ` of agent alice`)
	two.shows(`> ` + id)
	d.eventually("the second denies", func() bool { // a key shortly after the question appeared does nothing
		two.key("d")
		return two.has(`reason for alice: _`, 2*time.Second)
	})
	two.line("not that")
	r := <-asked
	require.Equal(t, 5, r.code)
	require.Contains(t, r.stderr, "not that")
	one.shows(`question ` + id + ` was answered by root: deny`)

	// Both answer at once: one is accepted, and the agent gets one answer.
	asked = d.asking("alice", "polisctl ask -- make three")
	id = d.question("alice").ID
	one.shows(`question `+id+` of agent alice`, `make three`)
	two.shows(`> `+id, `make three`)
	var end result
	d.eventually("an answer", func() bool {
		done := make(chan struct{})
		go func() { defer close(done); one.key("a") }()
		two.key("a")
		<-done
		select {
		case end = <-asked:
			return true
		default:
			return false
		}
	})
	require.Zero(t, end.code)
	one.shows(`(approved ` + id + `|question ` + id + ` was answered by root: approve)`)
	two.shows(`no agent asks for anything`)
	require.Empty(t, d.questions())
}

// has reports whether a pattern appears in time.
func (p *pane) has(pattern string, limit time.Duration) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if regexp.MustCompile(pattern).MatchString(p.text()) {
			return true
		}
	}
	return false
}
