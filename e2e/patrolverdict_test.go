package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// seen is what the patrol has of an agent.
func (d *daemon) seen(agent string, rep api.PatrolReport) (a api.PatrolAgent) {
	for _, v := range rep.Agents {
		if v.Agent == agent {
			a = v
		}
	}
	return a
}

// TestTheSpinnerOfAHungAgentIsNoProgress: it prints 64 bytes all the time, reports no step, and was sent no request.
func TestTheSpinnerOfAHungAgentIsNoProgress(t *testing.T) {
	o := streaming(t, "claude")
	o.config += shortPatrol
	d := startDaemon(t, o)
	d.up()
	d.add("claude", "--base", "claude", "--memory", "256")
	const spins = `i=0; while :; do i=$((i+1)); printf '\r\033[K* Pondering... (%ds, esc to interrupt, 1.%dk tokens)          ' $i $i`
	d.must("agents", "run", "claude", "sh: "+spins+` >&2; sleep 0.2; done`)
	f := d.finding("claude")
	require.Equal(t, api.PatrolStalled, f.Class)
	text := strings.Join(f.Evidence, "; ")
	require.Contains(t, text, "no step for ")
	require.Regexp(t, `its output repeats: \d+ bytes printed for .*, and nothing new`, text)
	// The same without steps, with a terminal of its own that only shows.
	d.must("agents", "add", "quiet", "--base", "custom", "--write", "**", "--", "sh", "-c", spins+`; sleep 0.2; done`)
	d.must("agents", "start", "--program", "quiet")
	f = d.finding("quiet")
	require.Equal(t, api.PatrolStalled, f.Class)
	require.Contains(t, strings.Join(f.Evidence, "; "), "its output repeats")
	for range 5 {
		d.patrol()
	}
	require.Len(t, d.openCases(), 2)
	require.Equal(t, 2, strings.Count(d.must("--json", "events"), `"agent:patrol"`), "each is found once")
}

// TestAHungToolIsFound, and the evidence has its call.
func TestAHungToolIsFound(t *testing.T) {
	o := streaming(t, "claude")
	o.config += shortPatrol
	d := startDaemon(t, o)
	d.up()
	d.add("claude", "--base", "claude", "--memory", "256")
	d.must("agents", "run", "claude", `sh: printf '%s\n' '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"wait-for-ever"}}]}}'; exec sleep 1000`)
	f := d.finding("claude")
	require.Equal(t, api.PatrolStalled, f.Class)
	require.Regexp(t, `the call wait-for-ever, open since \d+s; no step for \d+s; no output for`, strings.Join(f.Evidence, "; "))
	require.Contains(t, d.seen("claude", d.patrol()).Waits, "the call wait-for-ever")
}

// TestALongCompileIsNeitherStalledNorSpins: it computes in an open call, prints nothing, and changes nothing.
func TestALongCompileIsNeitherStalledNorSpins(t *testing.T) {
	o := streaming(t, "claude")
	o.config += "[patrol]\ninterval = \"0s\"\nstalled_after = \"8s\"\nspinning_after = \"8s\"\n"
	d := startDaemon(t, o)
	d.up()
	d.add("claude", "--base", "claude", "--memory", "256")
	d.must("agents", "run", "claude", `sh: printf '%s\n' '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make"}}]}}'; for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait`)
	d.eventually("it compiles for longer than both times", func() bool {
		rep := d.patrol()
		require.Empty(t, rep.Findings)
		a := d.seen("claude", rep)
		return a.UnchangedSeconds > 9 && strings.Contains(a.Waits, "the call make, open since") && strings.Contains(a.Waits, "which computes")
	})
}

// TestAnAgentAtItsPromptIsNotStalled: it reads the keys of its terminal, and redraws it.
func TestAnAgentAtItsPromptIsNotStalled(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol})
	d.up()
	for name, script := range map[string]string{
		"silent":  "stty -icanon -echo; printf '> '; exec sleep 1000",
		"redraws": `stty -icanon -echo; while :; do printf '\033[H\033[2J> \r\n? for shortcuts'; sleep 0.2; done`} {
		d.must("agents", "add", name, "--base", "custom", "--write", "**", "--", "sh", "-c", script)
		d.must("agents", "start", "--program", name)
	}
	d.must("agents", "add", "sleeps", "--base", "custom", "--write", "**", "--", "sh", "-c", "exec sleep 1000")
	d.must("agents", "start", "--program", "sleeps")
	d.finding("sleeps") // the time is long enough
	d.eventually("both were quiet for much longer", func() bool {
		rep := d.patrol()
		for _, f := range rep.Findings {
			require.Equal(t, "sleeps", f.Agent, "%+v", f)
		}
		return d.seen("silent", rep).QuietSeconds > 5 && d.seen("redraws", rep).QuietSeconds > 5
	})
}

// TestASlowModelIsAwaited: the agent is not stalled while its request is open, but after a time of its own it is. An
// answer ends the wait.
func TestASlowModelIsAwaited(t *testing.T) {
	needProgram(t, "curl")
	answer := make(chan struct{})
	asked := make(chan struct{}, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		select {
		case <-answer:
		case <-r.Context().Done():
		}
		fmt.Fprint(w, `{"type":"message","usage":{"input_tokens":1,"output_tokens":1}}`)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	d := startDaemon(t, options{config: shortPatrol + "[models.claude]\nkind = \"anthropic\"\nurl = \"" + s.URL + "\"\n[gateway]\nmodels = [\"claude\"]\n"})
	d.up()
	d.worker("ana")
	const ask = `curl -sS --max-time 600 -o /dev/null "$ANTHROPIC_BASE_URL/v1/messages" -H "content-type: application/json" -d '{"model":"good-1"}'; `
	d.must("agents", "run", "ana", ask+"echo answered > answered.txt; exec sleep 1000")
	<-asked
	var a api.PatrolAgent
	d.eventually("it waits for longer than stalled_after and spinning_after", func() bool {
		rep := d.patrol()
		require.Empty(t, rep.Findings)
		a = d.seen("ana", rep)
		return a.QuietSeconds > 5
	})
	require.Regexp(t, `^its model since \d+s: 1 open request$`, a.Waits)
	require.Contains(t, d.must("patrol"), "its model since ")

	set := func(v string) {
		d.must("config", "set", "patrol.model_after", v)
		require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	}
	set("4s")
	f := d.finding("ana")
	require.Equal(t, api.PatrolStalled, f.Class)
	require.Contains(t, strings.Join(f.Evidence, "; "), "it waits for its model since ")
	require.Len(t, d.openCases(), 1)

	set("1h")
	close(answer)
	d.eventually("it has its answer, and sleeps", func() bool {
		return !strings.Contains(strings.Join(d.finding("ana").Evidence, "; "), "model")
	})
	require.Len(t, d.openCases(), 1, "a moment of progress is no other case")
}
