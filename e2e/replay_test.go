package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// asking is a program that asks a model about its task twice, writes the answers down and commits them.
// Its first message has the date, a commit, its own name, and extra.
func asking(file, extra string) []string {
	return []string{"sh", "-c", `ask() { curl -sS --max-time 60 "$ANTHROPIC_BASE_URL/v1/messages" -H "content-type: application/json" -d "{\"model\":\"good-1\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"$1\"}]}"; }
{ ask "$0 at $(date +%FT%TZ) in $(git rev-parse --short HEAD), I am $(hostname)` + extra + `"; ask "and then?"; } >` + file + `
git add -A && git -c user.name=a -c user.email=a@b commit -qm work`}
}

// counting stands in for a service whose every answer is another one.
func counting(t *testing.T) (url string, asked *atomic.Int64) {
	asked = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"type\":\"message_start\",\"n\":%d,\"message\":{\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\n", asked.Add(1))
		w.(http.Flusher).Flush()
		fmt.Fprint(w, "data: {\"type\":\"message_stop\"}\n\n")
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

// replay runs polisctl replay.
func (d *daemon) replay(code int, args ...string) (r api.Replay) {
	d.t.Helper()
	out := d.ctl(append([]string{"--json", "replay"}, args...)...)
	require.Equal(d.t, code, out.code, out.String())
	require.NoError(d.t, json.Unmarshal([]byte(out.stdout), &r))
	return r
}

func TestATaskIsReplayedWithoutItsModel(t *testing.T) {
	needProgram(t, "curl")
	url, asked := counting(t)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(firstKey+"\n"), 0o600))
	d := startDaemon(t, options{config: "[merge]\nauto_merge = false\n[models.claude]\nkind = \"anthropic\"\nurl = \"" + url + "\"\nkey_file = \"" + key + "\"\nrecord = true\n" +
		"[roles.with.gateway]\nmodels = [\"claude\"]\n[roles.silent.gateway]\nmodels = [\"claude\"]\nrecord = false\n"})
	d.up()
	d.add("ana", append([]string{"--role", "with", "--"}, asking("ana.txt", "")...)...)
	d.add("bea", append([]string{"--role", "with", "--"}, asking("bea.txt", ", of $(hostname | wc -c) letters")...)...)
	d.add("cyd", append([]string{"--role", "silent", "--"}, asking("cyd.txt", "")...)...)
	for _, name := range []string{"ana", "bea", "cyd"} {
		d.must("agents", "run", name, "do it")
		require.Equal(t, 1, d.settled(name).Commits, "%s", d.must("agents", "watch", name, "-n", "50"))
	}
	// The recording is root's, and has no key.
	files := glob(d.path("ws", ".*", "logs", "*", "recordings", "*"))
	require.Len(t, files, 2)
	for _, f := range files {
		st, err := os.Stat(f)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), st.Mode())
	}
	require.Empty(t, d.keyOutside(firstKey))
	require.NotZero(t, d.exec("ana", "sh", "-c", "cat '"+files[0]+"'").code)

	// With neither the service nor its key, another agent does the same.
	require.Equal(t, int64(6), asked.Load())
	require.NoError(t, os.Remove(key))
	r := d.replay(0, "ana.1")
	require.Equal(t, api.ReplayCounts{Recorded: 2, Matched: 2}, r.ReplayCounts)
	require.Equal(t, api.TreeSame, r.Tree)
	require.Equal(t, "ana-replay1", r.Agent)
	_, there := d.agent(r.Agent)
	require.False(t, there, "the agent of a replay is removed")
	require.Len(t, d.usage("agent"), 3, "a replay uses nothing")

	// A request that differs is refused, and the report says how.
	r = d.replay(1, "bea.1", "--keep", "--name", "again")
	require.Equal(t, 1, r.Unmatched)
	require.Equal(t, 1, r.Matched, "the second one is as it was")
	require.Equal(t, api.TreeDifferent, r.Tree)
	require.Equal(t, []string{"bea.txt"}, r.Paths)
	require.Len(t, r.Differences, 1)
	require.Contains(t, r.Differences[0], "of 4 letters")
	require.Contains(t, r.Differences[0], "of 6 letters")
	require.Contains(t, d.sh("again", "cat bea.txt"), "MODEL_REPLAY_DIFFERS")
	r = d.replay(1, "bea.1", "--by-order")
	require.Equal(t, 1, r.Ordered)
	require.Zero(t, r.Unmatched)
	require.Equal(t, api.TreeSame, r.Tree)

	// Nothing but the recording answers an agent that replays, after a crash of polisd, too.
	require.NoError(t, os.WriteFile(key, []byte(firstKey+"\n"), 0o600))
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	d.must("agents", "stop", "again")
	d.must("agents", "start", "--program", "again")
	require.Contains(t, d.sh("again", `curl -sS "$ANTHROPIC_BASE_URL/v1/messages" -d '{"model":"good-1","messages":[{"role":"user","content":"hello"}]}'`), "MODEL_REPLAY_DIFFERS")
	require.NotZero(t, d.exec("again", "curl", "-sS", "--max-time", "5", url).code)
	require.Equal(t, int64(6), asked.Load())
	d.add("dan", "--role", "with", "--", "sh", "-c", "sleep 1000")
	d.must("agents", "run", "dan", "wait")
	d.try(tried{hint: "polisctl tasks show %s", refused: "replay dan.1", do: []string{"tasks show dan.1"}})
	e := d.refused(api.CodeNotFound, "replay", "cyd.1")
	require.Contains(t, e.Message, "record = true")
	d.refused(api.CodeNotFound, "replay", "ana.7")
	d.must("agents", "remove", "again", "--force")
	d.must("agents", "remove", "ana", "--force")
	r = d.replay(0, "ana.1")
	require.Equal(t, 2, r.Matched, "its agent was removed")
	require.False(t, strings.Contains(d.log(), firstKey))
}
