//go:build agents

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/gateway/usage"
)

// throughGateway is how a program works with the model gateway: the kind of the service, the model that
// it is run with, and why its requests can differ in a replay.
type throughGateway struct{ kind, model, differs string }

var gatewayAgents = map[string]throughGateway{
	"claude":   {kind: "anthropic", model: "claude-sonnet-4-6"},
	"cline":    {kind: "openai-compatible", model: "stand-in"},
	"codex":    {kind: "openai", model: "gpt-5.5"},
	"copilot":  {kind: "openai", model: "stand-in"},
	"gemini":   {kind: "gemini", model: "gemini-2.5-flash"},
	"opencode": {kind: "openai", model: "openai/gpt-5.5"},
	"pi":       {kind: "anthropic", model: "anthropic/claude-sonnet-4-6"},
	"qwen": {kind: "openai", model: "stand-in",
		differs: "the result of a commit has a note about the attribution, if its own calls of git ended within 2 and 5 seconds"},
}

const gatewayKey = "sk-real-9Xk2Lw7QmB31vT"

// TestRealAgentsThroughTheGateway runs the real programs with egress = "none" and no variable, login or
// file for their model but those of their base type: each does its work by the gateway, the key is not in
// its sandbox, and what the gateway counted is what the stand-in counted.
func TestRealAgentsThroughTheGateway(t *testing.T) {
	install := os.Getenv("POLIS_AGENTS")
	require.NotEmpty(t, install, "make e2e-agents installs them")
	require.Equal(t, slices.Sorted(maps.Keys(realAgents)), slices.Sorted(maps.Keys(gatewayAgents)))
	passed := 0
	for _, name := range slices.Sorted(maps.Keys(gatewayAgents)) {
		t.Run(name, func(t *testing.T) {
			how := gatewayAgents[name]
			r := &realRun{realAgent: realAgents[name], name: name, install: install}
			r.model, r.port = startModel(t)
			key := filepath.Join(t.TempDir(), "key")
			require.NoError(t, os.WriteFile(key, []byte(gatewayKey+"\n"), 0o600))
			r.daemon = startDaemon(t, options{
				config: fmt.Sprintf("[network]\negress = \"none\"\n[models.main]\nkind = %q\nurl = \"http://127.0.0.1:%d\"\nkey_file = %q\nrecord = true\n[roles.unattended.gateway]\nmodels = [\"main\"]\n", how.kind, r.port, key),
				mounts: fmt.Sprintf("{ source = %q, dest = %q, read_only = true }", install, install),
				box:    fmt.Sprintf("path = [%q]", filepath.Join(install, "node_modules", ".bin")),
			})
			r.project = r.up()
			a := r.add(name, "--base", name, "--role", "unattended")
			require.Empty(t, a.Warnings)
			dir := strings.TrimSpace(r.sh(name, "pwd"))
			r.model.play(work(dir, name, 0)...)
			r.must("run", "--detach", "--model", how.model, name, "--", "make a file, test it and commit it")
			r.ended()
			got := r.settled(name)
			watched := r.must("agents", "watch", "-n", "200", name)
			require.Equal(t, api.OutcomeMerged, got.Outcome, "%+v\n%s\n%s", got, watched, r.model.log())
			require.Contains(t, git(t, r.project, "log", "--format=%s"), "work 0 of "+name)

			r.eventually("the gateway has counted what the stand-in has", func() bool { return r.countsOf(name).Tokens == r.model.counted() })
			require.Positive(t, r.model.counted().Output)
			require.Equal(t, []string{gatewayKey}, r.model.keysSeen(), "the stand-in got the key, and no other")
			require.NotContains(t, watched, gatewayKey)
			r.sh(name, `! grep -rIlF `+gatewayKey[:12]+` /proc/*/environ /proc/*/cmdline ~ /run/polis /etc /tmp /var/tmp . 2>/dev/null | grep -v "^/proc/[0-9]*/cmdline"`)
			require.Empty(t, r.keyOutside(gatewayKey))
			require.NotZero(t, r.exec(name, "curl", "-sS", "--max-time", "5", fmt.Sprintf("http://127.0.0.1:%d/v1/models", r.port)).code, "it reaches the service only by the gateway")
			r.replays(key)
			passed++
		})
	}
	if file := os.Getenv("POLIS_AGENTS_DOC"); file != "" && !t.Failed() && passed == len(gatewayAgents) {
		require.NoError(t, writeSection(file, gatewayHeading, aboutGateway()))
	}
}

// replays has the task done again without its model: neither the service nor its key is there.
func (r *realRun) replays(key string) {
	t := r.t
	var replay api.Replay
	before := r.model.counted()
	require.NoError(t, os.Remove(key))
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	args := []string{"--json", "replay", "--keep", "--name", "again", r.name + ".1"}
	byOrder := gatewayAgents[r.name].differs != ""
	if byOrder {
		args = append(args, "--by-order")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(r.bin, "polisctl"), args...)
	cmd.Env = append(os.Environ(), "POLIS_SOCKET="+r.path("run", "polisd.sock"))
	again := capture(cmd, "")
	watched := r.ctl("agents", "watch", "-n", "200", "again")
	require.NoError(t, json.Unmarshal([]byte(again.stdout), &replay), "%s\n%s", again, watched)
	require.Equal(t, before, r.model.counted(), "a replay reaches no service")
	require.True(t, replay.Same() || byOrder && replay.Tree == api.TreeSame && replay.Unmatched == 0 && replay.Matched+replay.Ordered == replay.Recorded, "%s\n%s", again, watched)
	require.Positive(t, replay.Recorded)
}

// counted is what the stand-in has answered: it reports the same of each.
func (m *model) counted() usage.Tokens {
	m.mu.Lock()
	defer m.mu.Unlock()
	return usage.Tokens{Input: 10 * m.answers, Output: 10 * m.answers}
}

func (m *model) keysSeen() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.keys)
}
