package e2e

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// sharedConfig has a role whose agents share ten requests of modelStatus a day.
func sharedConfig(s *modelService, more string) string {
	return shortPatrol + "[models.claude]\nkind = \"anthropic\"\nurl = \"" + s.URL + "\"\n[gateway]\nmodels = [\"claude\"]\n" + more +
		"[roles.team]\nwrite = [\"**\"]\n[roles.team.shared_budget]\nday_tokens = 1200\n"
}

// TestAgentsOfARoleShareABudget: together they use it up and no more than it, also when polisd is killed in between.
func TestAgentsOfARoleShareABudget(t *testing.T) {
	needProgram(t, "curl")
	s := startModelService(t)
	d := startDaemon(t, options{config: sharedConfig(s, "")})
	d.up()
	for _, name := range []string{"ana", "bob"} {
		d.worker(name, "--role", "team")
	}
	used := func() int64 { return d.countsOf("ana").Total() + d.countsOf("bob").Total() }

	// What an agent was granted it can use while polisd is away: a quarter, of which it has used 120.
	hold := make(chan struct{})
	s.mu.Lock()
	s.hold = hold
	s.mu.Unlock()
	d.must("agents", "run", "ana", modelStatus+askModel+`'{"model":"good-1","stream":true}' >/dev/null; `+strings.ReplaceAll(modelStatus, "curl", "curl -o /dev/null")+" sleep 600")
	d.eventually("the stream began", func() bool { return s.requests() == 2 })
	require.Error(t, d.signal(syscall.SIGKILL))
	close(hold)
	d.eventually("it has used its part", func() bool { return s.requests() == 3 && used() == 250 })
	d.start()

	// Both send requests until one is refused. What is left is 7 requests and 110 tokens; each can exceed it by one.
	const until = `for i in 1 2 3 4 5 6 7 8 9 10 11 12; do c=$(` + modelStatus + `); echo $c; [ $c != 200 ] && exit 0; done; true`
	one, two := d.asking("ana", until), d.asking("bob", until)
	x, y := strings.Fields((<-one).stdout), strings.Fields((<-two).stdout)
	require.Equal(t, "429", x[len(x)-1], "%v", x)
	require.Equal(t, "429", y[len(y)-1], "%v", y)
	require.Equal(t, 3+len(x)-1+len(y)-1, s.requests(), "the service's own count")
	require.Equal(t, int64(250+120*(s.requests()-3)), used())
	require.GreaterOrEqual(t, used(), int64(1200), "nothing is left")
	require.Less(t, used(), int64(1200+2*120))

	require.Contains(t, d.must("events"), "the model budget of role team is spent")

	// It is spent for an agent that comes later, and after another death of polisd.
	require.NoError(t, d.signalRestart())
	d.worker("cid", "--role", "team")
	require.Contains(t, d.sh("cid", askModel+`'{"model":"good-1"}'`), "tokens of the day that role team shares")
	d.worker("dan")
	n := s.requests()
	require.Equal(t, "200 ", d.sh("dan", modelStatus), "it is not of the role")
	require.Equal(t, n+1, s.requests())

	// It is where people look.
	a, _ := d.agent("ana")
	require.Equal(t, "team", a.Models.Budget.Role)
	require.GreaterOrEqual(t, a.Models.Budget.Percent, 100)
	require.Regexp(t, `(?m)^team +\d+ .*10\d% of day_tokens of role team$`, strings.ReplaceAll(d.must("usage", "--by", "role"), "11", "10"))
	var out struct{ Usage []api.ModelUse }
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "usage", "--by", "role")), &out))
	require.Equal(t, "team", out.Usage[0].Key)
	require.Equal(t, "team", out.Usage[0].Budget.Role)
	require.Regexp(t, `polis_role_model_budget_ratio\{bound="day_tokens",role="team"\} 1`, d.must("metrics", "--prometheus"))

	// A larger budget applies from the reload.
	config := readFile(d.path("polisd.toml"))
	d.write("polisd.toml", strings.Replace(config, "day_tokens = 1200", "day_tokens = 12000", 1))
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("there is something left", func() bool { return d.sh("cid", modelStatus) == "200 " })
}

// TestASharedBudgetIsRaisedByOneAnswer: the agents that wait for it continue, and their questions are withdrawn.
func TestASharedBudgetIsRaisedByOneAnswer(t *testing.T) {
	needProgram(t, "curl")
	s := startModelService(t)
	d := startDaemon(t, options{config: sharedConfig(s, "on_budget = \"ask\"\n")})
	d.up()
	for _, name := range []string{"ana", "bob"} {
		d.worker(name, "--role", "team")
	}
	require.Equal(t, strings.Repeat("200 ", 10), d.sh("ana", strings.Repeat(modelStatus, 10)))
	one, two := d.asking("ana", modelStatus), d.asking("bob", modelStatus)
	require.Equal(t, "raise day_tokens of role team to 1800", d.question("bob").What)
	q := d.question("ana")
	require.Contains(t, q.Note, "1200 of 1200 tokens of the day that role team shares")
	d.must("approvals", "approve", q.ID, "--raise", "1200")
	require.Equal(t, "200 ", (<-one).stdout)
	require.Equal(t, "200 ", (<-two).stdout)
	d.eventually("nobody asks", func() bool { return len(d.questions()) == 0 })
	require.Equal(t, 12, s.requests())
	d.eventually("the use is shown", func() bool { // during a grant the list has what it had before
		a, _ := d.agent("bob")
		return a.Models.Budget != nil && a.Models.Budget.Text == "1440 of 2400 tokens of the day that role team shares"
	})
	require.NoError(t, d.signalRestart())
	require.Equal(t, "200 ", d.sh("bob", modelStatus), "the raise is kept")
}
