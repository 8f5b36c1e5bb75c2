package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/usage"
)

const (
	firstKey  = "sk-first-Zq81kfP02mXv"
	secondKey = "sk-second-Lm39dhW77bRt"
)

// modelService stands in for a model service with a key.
type modelService struct {
	*httptest.Server
	hold chan struct{} // if not nil, a stream waits for it after its first event

	mu   sync.Mutex
	keys []string
	n    int
}

func startModelService(t *testing.T) *modelService {
	s := &modelService{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	return s
}

func (s *modelService) answer(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.keys = append(s.keys, r.Header.Get("X-Api-Key"))
	s.n++
	hold := s.hold
	s.mu.Unlock()
	w.Header().Set("X-Echo", r.Header.Get("X-Api-Key"))
	if !strings.Contains(string(b), `"stream":true`) {
		fmt.Fprintf(w, `{"type":"message","echo":%q,"usage":{"input_tokens":100,"output_tokens":20}}`, r.Header.Get("X-Api-Key"))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\n")
	w.(http.Flusher).Flush()
	if hold != nil {
		<-hold
	}
	fmt.Fprint(w, "data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":3}}\n\ndata: {\"type\":\"message_stop\"}\n\n")
}

func (s *modelService) lastKey() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys) == 0 {
		return ""
	}
	return s.keys[len(s.keys)-1]
}

func (s *modelService) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// countsOf reads the ledger of an agent.
func (d *daemon) countsOf(agent string) (c ledger.Counts) {
	d.t.Helper()
	for _, f := range glob(d.path("ws", ".*", "logs", agent)) {
		rows, err := ledger.Read(f)
		require.NoError(d.t, err)
		for _, r := range rows {
			c.Add(r.Counts)
		}
	}
	return c
}

const askModel = `curl -sS --max-time 60 "$ANTHROPIC_BASE_URL/v1/messages" -H "x-api-key: $ANTHROPIC_API_KEY" -H "content-type: application/json" -d `

func TestAgentsReachAModelWithoutItsKey(t *testing.T) {
	needProgram(t, "curl")
	s := startModelService(t)
	keyFile := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(keyFile, []byte(firstKey+"\n"), 0o600))
	d := startDaemon(t, options{config: "[network]\negress = \"none\"\n[models.claude]\nkind = \"anthropic\"\nurl = \"" + s.URL + "\"\nkey_file = \"" + keyFile + "\"\nallow_models = [\"good-*\"]\n" +
		"[roles.with.gateway]\nmodels = [\"claude\"]\n"})
	d.up()
	a := d.add("ana", "--role", "with")
	require.Empty(t, a.Warnings)
	d.add("bob", "--role", "with")
	d.add("without")
	env := d.sh("ana", "env")
	require.Contains(t, env, "ANTHROPIC_BASE_URL=http://127.0.0.1:11717/claude\n")
	require.NotContains(t, d.sh("without", "env"), "ANTHROPIC", "no placeholder hides a login")

	// The agent reaches the model, and nothing else.
	out := d.sh("ana", askModel+`'{"model":"good-1"}' -i`)
	require.Contains(t, out, `"output_tokens":20`)
	require.NotContains(t, out, firstKey, "the service repeated it in a header and in the text")
	require.Equal(t, firstKey, s.lastKey())
	require.NotZero(t, d.exec("ana", "curl", "-sS", "--max-time", "10", s.URL).code, "the service itself is not reachable")
	require.NotZero(t, d.exec("without", "curl", "-sS", "--max-time", "10", "http://127.0.0.1:11717/claude/v1/models").code)
	require.NotZero(t, d.exec("bob", "curl", "-sS", "--max-time", "10", "http://"+a.Address+":11717/claude/v1/models").code, "an endpoint is its agent's own")
	before := s.requests()
	for name, script := range map[string]string{
		"a model that is not allowed": askModel + `'{"model":"other"}' -w '%{http_code}' -o /dev/null`,
		"another path":                `curl -sS "$ANTHROPIC_BASE_URL/v1/files" -w '%{http_code}' -o /dev/null`,
		"a proxy request":             `curl -sS -x http://127.0.0.1:11717 ` + s.URL + `/v1/models -w '%{http_code}' -o /dev/null`,
		"another host":                `curl -sS "$ANTHROPIC_BASE_URL/v1/models" -H "Host: evil.example.com" -w '%{http_code}' -o /dev/null`,
		"dots":                        `curl -sS --path-as-is "$ANTHROPIC_BASE_URL/v1/../../x" -w '%{http_code}' -o /dev/null`,
	} {
		require.Regexp(t, `^4\d\d$`, d.sh("ana", script), name)
	}
	require.NotZero(t, d.exec("ana", "curl", "-sS", "--max-time", "10", "-p", "-x", "http://127.0.0.1:11717", s.URL).code, "CONNECT")
	require.Equal(t, before, s.requests())

	// The key is nowhere in the sandbox, and in no file or argument of polis.
	d.sh("ana", `! grep -rIlF `+firstKey[:12]+` /proc/*/environ /proc/*/cmdline /proc/*/maps ~ /run/polis /etc /tmp /var/tmp . 2>/dev/null | grep -v "^/proc/[0-9]*/cmdline"`)
	require.NotContains(t, d.keyOutside(firstKey), "x")
	for _, args := range [][]string{{"agents", "list"}, {"events"}, {"agents", "why", "ana"}, {"status"}} {
		require.NotContains(t, d.must(append([]string{"--json"}, args...)...), firstKey)
	}
	require.NotContains(t, d.ports("ana"), 11717, "the endpoint is no port of the agent")

	// An answer survives the death of polisd, and is counted.
	hold := make(chan struct{})
	s.mu.Lock()
	s.hold = hold
	s.mu.Unlock()
	n := s.requests()
	got := make(chan string, 1)
	go func() { got <- d.exec("ana", "sh", "-c", askModel+`'{"model":"good-1","stream":true}' -N`).stdout }()
	d.eventually("the stream began", func() bool { return s.requests() == n+1 })
	require.Error(t, d.signal(syscall.SIGKILL))
	close(hold)
	require.Contains(t, <-got, "message_stop")
	c := d.countsOf("ana")
	require.Equal(t, usage.Tokens{Input: 107, Output: 23}, c.Tokens)
	require.Equal(t, int64(1), c.Refused)
	d.start()

	require.Equal(t, []api.ModelUse{{Key: "good-1", Requests: 2, InputTokens: 107, OutputTokens: 23, Unpriced: 2}, {Key: "other", Requests: 1, Refused: 1}}, d.usage("model"))

	// It is where people look, without a cost that nobody knows.
	require.Regexp(t, `(?m)^NAME .* TOKENS +COST +AGE$`, d.must("agents", "list"))
	require.Regexp(t, `(?m)^ana .* 130 +- +\S+$`, d.must("agents", "list"))
	require.Regexp(t, `(?m)^ana .* 130 +- +-$`, d.must("top", "--every", "100ms"))
	require.Regexp(t, `(?m)^good-1 +2 .* 2 without a price$`, d.must("usage", "--by", "model"))

	// A reload replaces the key. A key that others can read is not used.
	require.NoError(t, os.WriteFile(keyFile, []byte(secondKey+"\n"), 0o600))
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("the new key is used", func() bool {
		d.sh("ana", askModel+`'{"model":"good-1"}'`)
		return s.lastKey() == secondKey
	})
	d.eventually("the receipts have it", func() bool {
		return strings.Contains(d.must("receipts", "show", "ana"), "the key of model service claude was replaced")
	})
	require.NotContains(t, d.must("receipts", "export"), secondKey)
	require.NoError(t, os.Chmod(keyFile, 0o644))
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("the service is gone", func() bool { return strings.Contains(d.sh("ana", askModel+`'{"model":"good-1"}'`), "no model service") })
	require.Contains(t, d.log(), "can be used by others")
	require.NotContains(t, d.log(), secondKey)
	d.must("agents", "stop", "ana")
	require.NoError(t, os.Chmod(keyFile, 0o600))
	d.must("agents", "start", "--program", "ana")
	require.Contains(t, d.sh("ana", askModel+`'{"model":"good-1"}'`), `"output_tokens":20`)
	used := d.usage("agent")
	require.Len(t, used, 1, "the other agents used nothing")
	require.Equal(t, "ana", used[0].Key)
	d.must("agents", "remove", "ana", "--force")
	require.Equal(t, used, d.usage("agent"), "the counts outlive the agent")
}

func TestTheCostOfATaskIsShown(t *testing.T) {
	needProgram(t, "curl")
	s := startModelService(t)
	d := startDaemon(t, options{config: "[models.claude]\nkind = \"anthropic\"\nurl = \"" + s.URL + "\"\ncurrency = \"EUR\"\n" +
		"[[models.claude.prices]]\nmodel = \"good-*\"\ninput = 10000\noutput = 50000\n[[models.claude.prices]]\nmodel = \"free\"\n" +
		"[gateway]\nmodels = [\"claude\"]\ntask_tokens = 1000\n"})
	d.up()
	d.add("ana", "--", "sh", "-ec")
	ask := func(model string) string { return askModel + `'{"model":"` + model + `"}' >/dev/null` }
	for i, script := range []string{ask("good-1"), ask("unknown") + "\n" + ask("good-2"), ask("free")} {
		d.must("agents", "run", "ana", script)
		id := fmt.Sprintf("ana.%d", i+1)
		d.eventually(id+" has ended", func() bool { return d.taskOf(id).Final })
		require.NotNil(t, d.taskOf(id).Models, "%+v", d.taskOf(id))
	}
	tasks := d.must("tasks", "ana")
	require.Regexp(t, `(?m)^ID +TIME +TOOK +RESULT +TOKENS +COST +PROMPT$`, tasks)
	require.Regexp(t, `(?m)^ana\.1 .* 120 +2\.00 EUR `, tasks)
	require.Regexp(t, `(?m)^ana\.2 .* 240 +>2\.00 EUR `, tasks)
	require.Regexp(t, `(?m)^ana\.3 .* 120 +0\.00 EUR `, tasks)
	require.Regexp(t, `models cost +>2\.00 EUR\n`, d.must("tasks", "show", "ana.2"))
	require.Regexp(t, `(?m)^ana\.2 +2 .* >2\.00 EUR .* 1 without a price$`, d.must("usage", "--by", "task"))
	var a api.Agent
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "agents", "list")), &struct{ Agents *[1]*api.Agent }{&[1]*api.Agent{&a}}))
	require.Equal(t, map[string]float64{"EUR": 4}, a.Models.Cost)
	require.Nil(t, a.Models.Budget, "no task runs, and the bound is for tasks")

	// Metrics have them, and continue after a crash.
	series := func() (out []string) {
		for line := range strings.Lines(d.must("metrics", "--prometheus", "ana")) {
			if strings.HasPrefix(line, "polis_model_") && !strings.Contains(line, "first_token") {
				out = append(out, line)
			}
		}
		return out
	}
	before := series()
	require.Contains(t, before, `polis_model_cost_total{agent="ana",currency="EUR",model="good-1",service="claude",workspace="`+a.Workspace+`"} 2`+"\n")
	require.Contains(t, before, `polis_model_tokens_total{agent="ana",kind="output",model="unknown",service="claude",workspace="`+a.Workspace+`"} 20`+"\n")
	require.Error(t, d.signal(syscall.SIGKILL))
	for _, pid := range d.shimPIDs() {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	d.start()
	require.Equal(t, before, series())

	// A race has the cost of each agent.
	x, _ := d.raced(ask("good-1"), "-n", "2")
	for _, r := range x.Racers {
		require.Equal(t, map[string]float64{"EUR": 2}, r.Models.Cost)
	}

	// Receipts have the sums of each task, also those of the last minute before a stop.
	require.NoError(t, d.signal(syscall.SIGTERM))
	d.start()
	out := d.must("receipts", "show", "ana", "--json")
	for _, want := range []string{"used 1 request and 120 tokens of model services in task ana.1 so far", "used 2 requests and 240 tokens of model services in task ana.2 so far"} {
		require.Contains(t, out, want)
	}
}

// TestASpentBudgetIsNotRenewedByWorkers: a worker has its parent's services and a budget of its own, but an
// agent gets no further worker when the budget is spent by it and its workers.
func TestASpentBudgetIsNotRenewedByWorkers(t *testing.T) {
	needProgram(t, "curl")
	s := startModelService(t)
	d := startDaemon(t, options{config: "[patrol]\ninterval = \"0s\"\n[delegate]\nworkers = 9\n[models.claude]\nkind = \"anthropic\"\nurl = \"" + s.URL + "\"\n" +
		"[gateway]\nmodels = [\"claude\"]\nday_tokens = 300\n"})
	d.up()
	d.worker("alice")
	ask := askModel + `'{"model":"good-1"}' >/dev/null`
	d.sh("alice", ask)
	delegate := func(branch string) result {
		return d.exec("alice", "sh", "-c", fmt.Sprintf("polisctl --json delegate %s '%s' --wait", branch, strings.ReplaceAll(ask, "'", `'\''`)))
	}
	require.Contains(t, delegate("part/a").stdout, "part-a")
	require.Equal(t, int64(120), d.countsOf("part-a").Total(), "the worker has its parent's services")
	d.must("agents", "remove", "part-a", "--force")
	require.Contains(t, delegate("part/b").stdout, "part-b")
	r := delegate("part/c") // 360 of 300 together, also of the worker that is gone
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "360 of 300 tokens of the day")
	require.Equal(t, 3, s.requests())

	// The hint: a person raises it.
	require.Contains(t, r.stderr, "raise the budget in [gateway] of polisd.toml")
	config := readFile(d.path("polisd.toml"))
	d.write("polisd.toml", strings.Replace(config, "day_tokens = 300", "day_tokens = 3000", 1))
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("a worker is made", func() bool { return strings.Contains(delegate("part/d").stdout, "part-d") })
}

// usage returns what polisctl usage prints, without times.
func (d *daemon) usage(by string) []api.ModelUse {
	d.t.Helper()
	var out struct{ Usage []api.ModelUse }
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "usage", "--by", by)), &out))
	for i := range out.Usage {
		out.Usage[i].FirstTokenMS = 0
	}
	return out.Usage
}

// keyOutside returns the files and processes of polis that contain a key.
func (d *daemon) keyOutside(key string) (found string) {
	d.t.Helper()
	require.NoError(d.t, filepath.WalkDir(d.path(), func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && strings.Contains(readFile(path), key) {
			found += "x " + path + "\n"
		}
		return nil
	}))
	for _, pid := range d.shimPIDs() {
		for _, f := range []string{"cmdline", "environ"} {
			if strings.Contains(readFile(fmt.Sprintf("/proc/%d/%s", pid, f)), key) {
				found += fmt.Sprintf("x %d %s\n", pid, f)
			}
		}
	}
	return found
}
