package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAQuestionIsAnsweredWhereItsTaskIsFollowed: polisctl run shows it on its terminal, and the output of the task continues after
// the answer. A question that is answered elsewhere goes away, and one is shown again after the shell had the terminal.
func TestAQuestionIsAnsweredWhereItsTaskIsFollowed(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.worker]\nwrite = [\"**\"]\nask = [\"deploy/**\"]\n"})
	project := d.up()
	d.worker("alice", "--role", "worker")
	term := d.terminal(project)
	modes := term.says("stty -g")
	term.types("polisctl run alice 'mkdir -p deploy; echo 1 > deploy/a; echo was approved; echo 2 > deploy/b || true; echo 3 > deploy/c; cat main.txt; echo over'\r")
	term.sees("what       deploy/a\r\n")
	require.NotContains(t, term.sees("[s]kip\r\n"), "was approved")
	term.types("a")
	term.sees("approved alice.")
	term.sees("was approved\r\n")

	term.sees("what       deploy/b\r\n")
	term.sees("[s]kip\r\n")
	d.must("approvals", "deny", d.question("alice").ID, "not today")
	term.sees("was answered by root: deny\r\n")
	term.sees("cannot create deploy/b: Permission denied\r\n")

	term.sees("what       deploy/c\r\n")
	term.sees("[s]kip\r\n")
	term.types("\x1a")
	term.sees("outside> ")
	require.Equal(t, modes, term.says("stty -g"))
	term.types("fg\r")
	term.sees("what       deploy/c\r\n")
	term.sees("[s]kip\r\n")
	term.types("d")
	term.sees("reason for the agent")
	term.types("no\x7fo\r")
	term.sees("denied alice.")
	term.sees(": no\r\n")
	term.sees("alice.1 ")
	term.sees("outside> ")
	require.Equal(t, modes, term.says("stty -g"))

	// A command of exec is refused at once, with a line at its end.
	term.types("polisctl agents exec alice cat deploy/a\r")
	term.sees("polis: deploy/a needs an approval, which this command does not ask for: refused; polisctl agents why alice\r\n")
	term.sees("outside> ")
	require.Empty(t, d.questions())
}
