//go:build agents

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// realAgent is a program from npm, and what it needs to work with the stand-in.
type realAgent struct {
	pkg   string
	env   []string // PORT is the stand-in's
	setup string   // run in the agent before the task
}

var realAgents = map[string]realAgent{
	"claude": {pkg: "@anthropic-ai/claude-code", env: []string{"ANTHROPIC_BASE_URL=http://127.0.0.1:PORT", "ANTHROPIC_API_KEY=sk-stand-in"}},
	"codex": {pkg: "@openai/codex", env: []string{"STAND_IN_KEY=sk-stand-in"}, setup: `mkdir -p ~/.codex && cat > ~/.codex/config.toml <<'END'
model = "stand-in"
model_provider = "standin"
[model_providers.standin]
name = "stand-in"
base_url = "http://127.0.0.1:PORT/v1"
env_key = "STAND_IN_KEY"
wire_api = "responses"
END`},
	"qwen": {pkg: "@qwen-code/qwen-code", env: []string{"OPENAI_BASE_URL=http://127.0.0.1:PORT/v1", "OPENAI_API_KEY=sk-stand-in", "OPENAI_MODEL=stand-in"},
		setup: `mkdir -p ~/.qwen && echo '{"security": {"auth": {"selectedType": "openai"}}}' > ~/.qwen/settings.json`},
	"pi": {pkg: "@mariozechner/pi-coding-agent", setup: `mkdir -p ~/.pi/agent && cat > ~/.pi/agent/models.json <<'END'
{"providers": {"standin": {"baseUrl": "http://127.0.0.1:PORT", "apiKey": "sk-stand-in", "api": "anthropic-messages", "models": [{"id": "stand-in"}]}}}
END
echo '{"defaultProvider": "standin", "defaultModel": "stand-in"}' > ~/.pi/agent/settings.json`},
}

// agentsDoc is what comes before the table in docs/agents.md.
const agentsDoc = `# Agents that were run

` + "`make e2e-agents`" + ` installs these programs from npm and runs each in polis against a stand-in for its model service, in an agent
that reaches the stand-in by ` + "`host_ports`" + `. The task begins with a dash, as a Markdown list does. The stand-in answers the Messages API of
Anthropic and the Responses and Chat Completions APIs of OpenAI, all streaming. The run writes this table. The other base types
(` + "`polisctl agents types`" + `) are not part of it.

| base type | program | seen |
|---|---|---|
`

// TestRealAgents runs the real programs against a stand-in for their model services:
// each starts, edits, tests, commits and ends, and its branch is merged.
// POLIS_AGENTS is the directory that they were installed in with npm.
func TestRealAgents(t *testing.T) {
	dir := os.Getenv("POLIS_AGENTS")
	require.NotEmpty(t, dir, "make e2e-agents installs them")
	var rows []string
	for _, name := range slices.Sorted(maps.Keys(realAgents)) {
		a := realAgents[name]
		t.Run(name, func(t *testing.T) {
			_, err := os.Stat(filepath.Join(dir, "node_modules", a.pkg))
			require.NoError(t, err)
			m, port := startModel(t, `echo "made by `+name+`" > made.txt && grep -q made made.txt && git add -A && git commit -qm "work of `+name+`"`)
			fill := func(s string) string { return strings.ReplaceAll(s, "PORT", fmt.Sprint(port)) }
			d := startDaemon(t, options{
				config: fmt.Sprintf("[network]\nhost_ports = [%d]\n", port),
				mounts: fmt.Sprintf("{ source = %q, dest = %q, read_only = true }", dir, dir),
				box:    fmt.Sprintf("path = [%q]", filepath.Join(dir, "node_modules", ".bin")),
			})
			project := d.up()
			version := d.types()[name].Version
			args := []string{"--base", name}
			for _, e := range a.env {
				args = append(args, "--env", fill(e))
			}
			d.add(name, args...)
			if a.setup != "" {
				d.sh(name, fill(a.setup))
			}
			d.must("agents", "run", name, "--", "- make the file made.txt, test it and commit it")
			got := d.settled(name)
			require.Equal(t, api.OutcomeMerged, got.Outcome, "%+v\n%s\n%v", got, d.must("agents", "watch", "-n", "200", name), m.asked)
			require.Equal(t, "made by "+name+"\n", readFile(filepath.Join(project, "made.txt")))
			require.Contains(t, git(t, project, "log", "--format=%s"), "work of "+name)
			require.NotEmpty(t, version)
			rows = append(rows, fmt.Sprintf("| `%s` | %s %s | starts, edits, tests, commits, ends, merged |", name, a.pkg, version))
		})
	}
	t.Log("\n" + strings.Join(rows, "\n"))
	if file := os.Getenv("POLIS_AGENTS_DOC"); file != "" && !t.Failed() {
		require.NoError(t, os.WriteFile(file, []byte(agentsDoc+strings.Join(rows, "\n")+"\n"), 0o644))
	}
}
