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
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// sink is a server of messages, in their order.
func sink(t *testing.T) (url string, next func() (api.Event, http.Header, string)) {
	type got struct {
		header http.Header
		body   string
	}
	all := make(chan got, 100)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		all <- got{r.Header, string(b)}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() (ev api.Event, h http.Header, body string) {
		t.Helper()
		select {
		case g := <-all:
			_ = json.Unmarshal([]byte(g.body), &ev) //nolint:errcheck // not each is JSON
			return ev, g.header, g.body
		case <-time.After(2 * time.Minute):
			require.Fail(t, "no message came")
		}
		return ev, nil, ""
	}
}

// TestWhatPeopleWaitForIsSent to a program of this machine: the end of a task, a failed check, a conflict, a question.
func TestWhatPeopleWaitForIsSent(t *testing.T) {
	url, next := sink(t)
	d := startDaemon(t, options{config: fmt.Sprintf("[notify]\nwebhook = %q\npause = \"0s\"\n[merge]\ncheck = \"test ! -e bad\"\n[locks]\nhold = \"close\"\n", url+"/polis")})
	d.up()
	d.add("alice", "--base", "custom", "--auto-merge=false", "--", "sh", "-c")
	d.add("bob", "--base", "custom", "--auto-merge=false", "--", "sh", "-c")
	expect := func(kind, agent string) api.Event {
		t.Helper()
		ev, _, body := next()
		require.Equal(t, kind, ev.Data["kind"], body)
		require.Equal(t, agent, ev.Agent, body)
		return ev
	}
	d.must("run", "--wait", "alice", ident+"echo x > bad; echo alice > main.txt; git add .; git commit -qm bad")
	require.Contains(t, expect("task", "alice").Message, "task alice.1 of agent alice has ended")
	require.NotZero(t, d.ctl("merge", "alice").code)
	require.Equal(t, api.CodeCheckFailed, expect("check", "alice").Code)

	d.must("run", "--wait", "bob", ident+"echo bob > main.txt; git commit -qam bob")
	expect("task", "bob")
	d.must("merge", "bob")
	require.NotZero(t, d.ctl("merge", "alice", "--no-check").code)
	require.Equal(t, api.CodeMergeConflict, expect("conflict", "alice").Code)

	asked := d.asking("bob", "polisctl ask -- make world")
	ev := expect("question", "bob")
	require.Contains(t, ev.Message, "polisctl approvals show")
	d.must("approvals", "approve", d.question("bob").ID)
	<-asked

	// Only what is wanted, from the next message on.
	d.write("polisd.toml", strings.Replace(readFile(d.path("polisd.toml")), "[notify]\n", "[notify]\nevents = [\"question\"]\n", 1))
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("the configuration is read", func() bool {
		return strings.Contains(d.log(), "configuration was read again") || strings.Contains(d.log(), "reload")
	})
	d.must("run", "--wait", "bob", "true")
	asked = d.asking("bob", "polisctl ask -- make again")
	expect("question", "bob")
	d.must("approvals", "approve", d.question("bob").ID)
	<-asked
}

// TestTheExampleForNtfySendsMessages: the script of docs/examples, with the server's protocol: the text is the body.
func TestTheExampleForNtfySendsMessages(t *testing.T) {
	needProgram(t, "jq")
	needProgram(t, "curl")
	dir, err := os.MkdirTemp("/tmp", "polis-ntfy-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // the command runs as another user
	script := filepath.Join(dir, "notify-ntfy")
	require.NoError(t, os.WriteFile(script, []byte(readFile("../docs/examples/notify-ntfy")), 0o755)) //nolint:gosec // as above
	url, next := sink(t)
	d := startDaemon(t, options{config: fmt.Sprintf("[notify]\ncommand = [%q, %q]\nevents = [\"task\", \"question\"]\npause = \"0s\"\n", script, url+"/topic")})
	d.up()
	d.add("alice", "--base", "custom", "--", "sh", "-c")
	d.must("run", "--wait", "alice", "true")
	_, h, body := next()
	require.Equal(t, "polis: alice", h.Get("Title"))
	require.Equal(t, "default", h.Get("Priority"))
	require.Contains(t, body, "task alice.1 of agent alice has ended")
	asked := d.asking("alice", "polisctl ask -- make")
	_, h, _ = next()
	require.Equal(t, "high", h.Get("Priority"))
	d.must("approvals", "approve", d.question("alice").ID)
	<-asked
}
