//go:build agents

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path"
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
	set   string   // both, for a person
	api   string   // what it speaks to its model
	other string   // another model's name, for --model
	goOn  bool     // it can continue with its last session
}

var realAgents = map[string]realAgent{
	"claude": {
		pkg: "@anthropic-ai/claude-code", api: "Messages", other: "claude-other", goOn: true,
		env: []string{"ANTHROPIC_BASE_URL=http://127.0.0.1:PORT", "ANTHROPIC_API_KEY=sk-stand-in"},
		set: "`ANTHROPIC_BASE_URL=URL`, `ANTHROPIC_API_KEY=KEY`",
	},
	"cline": {
		pkg: "cline", api: "Chat Completions", other: "other",
		setup: `cline auth --provider openai-compatible --apikey sk-stand-in --modelid stand-in --baseurl http://127.0.0.1:PORT/v1 </dev/null`,
		set:   "`cline auth --provider openai-compatible --apikey KEY --modelid MODEL --baseurl URL`, once in the agent",
	},
	"codex": {
		pkg: "@openai/codex", api: "Responses", other: "gpt-5.5", goOn: true,
		env: []string{"STAND_IN_KEY=sk-stand-in"},
		// Of a model that it does not know it expects no patches.
		setup: `mkdir -p ~/.codex && cat > ~/.codex/config.toml <<'END'
model = "gpt-5.5"
model_provider = "standin"
[model_providers.standin]
name = "stand-in"
base_url = "http://127.0.0.1:PORT/v1"
env_key = "STAND_IN_KEY"
wire_api = "responses"
END`,
		set: "`model_provider` and `[model_providers.NAME]` in `~/.codex/config.toml`, and the variable that its `env_key` names",
	},
	"copilot": {
		pkg: "@github/copilot", api: "Chat Completions", other: "other", goOn: true,
		env: []string{"COPILOT_PROVIDER_BASE_URL=http://127.0.0.1:PORT/v1", "COPILOT_PROVIDER_API_KEY=sk-stand-in", "COPILOT_MODEL=stand-in"},
		set: "`COPILOT_PROVIDER_BASE_URL=URL`, `COPILOT_PROVIDER_API_KEY=KEY`, `COPILOT_MODEL=MODEL`; no login",
	},
	"gemini": {
		pkg: "@google/gemini-cli", api: "generateContent", other: "gemini-other", goOn: true,
		env:   []string{"GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:PORT", "GEMINI_API_KEY=sk-stand-in"},
		setup: `mkdir -p ~/.gemini && echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}}' > ~/.gemini/settings.json`,
		set:   "`GEMINI_API_KEY=KEY`; for another service `GOOGLE_GEMINI_BASE_URL=URL`, and `security.auth.selectedType = \"gemini-api-key\"` in `~/.gemini/settings.json`",
	},
	"opencode": {
		pkg: "opencode-ai", api: "Chat Completions", other: "standin/other", goOn: true,
		setup: `mkdir -p ~/.config/opencode && cat > ~/.config/opencode/opencode.json <<'END'
{"model": "standin/stand-in", "provider": {"standin": {"npm": "@ai-sdk/openai-compatible", "name": "stand-in",
  "options": {"baseURL": "http://127.0.0.1:PORT/v1", "apiKey": "sk-stand-in"}, "models": {"stand-in": {"name": "stand-in"}, "other": {"name": "other"}}}}}
END`,
		set: "`model` and `provider` with `options.baseURL` in `~/.config/opencode/opencode.json`",
	},
	"pi": {
		pkg: "@mariozechner/pi-coding-agent", api: "Messages", other: "other", goOn: true,
		setup: `mkdir -p ~/.pi/agent && cat > ~/.pi/agent/models.json <<'END'
{"providers": {"standin": {"baseUrl": "http://127.0.0.1:PORT", "apiKey": "sk-stand-in", "api": "anthropic-messages", "models": [{"id": "stand-in"}, {"id": "other"}]}}}
END
echo '{"defaultProvider": "standin", "defaultModel": "stand-in"}' > ~/.pi/agent/settings.json`,
		set: "`~/.pi/agent/models.json` with the service, `~/.pi/agent/settings.json` with `defaultProvider` and `defaultModel`",
	},
	"qwen": {
		pkg: "@qwen-code/qwen-code", api: "Chat Completions", other: "other", goOn: true,
		env:   []string{"OPENAI_BASE_URL=http://127.0.0.1:PORT/v1", "OPENAI_API_KEY=sk-stand-in", "OPENAI_MODEL=stand-in"},
		setup: `mkdir -p ~/.qwen && echo '{"security": {"auth": {"selectedType": "openai"}}}' > ~/.qwen/settings.json`,
		set:   "`OPENAI_BASE_URL=URL`, `OPENAI_API_KEY=KEY`, `OPENAI_MODEL=MODEL`, and `security.auth.selectedType = \"openai\"` in `~/.qwen/settings.json`",
	},
}

// realRun is one of them in a polis of its own.
type realRun struct {
	*daemon
	realAgent
	name    string
	project string
	model   *model
	port    int
	install string // directory of npm
}

func (r *realRun) fill(s string) string { return strings.ReplaceAll(s, "PORT", fmt.Sprint(r.port)) }

// startReal starts polis with an agent of one type, and another that holds main.txt.
func startReal(t *testing.T, install, name string, roles ...string) *realRun {
	r := &realRun{realAgent: realAgents[name], name: name, install: install}
	_, err := os.Stat(filepath.Join(install, "node_modules", r.pkg))
	require.NoError(t, err)
	r.model, r.port = startModel(t)
	r.daemon = startDaemon(t, options{
		config: fmt.Sprintf("[network]\nhost_ports = [%d]\n[locks]\nwait = \"300ms\"\nhold = \"1h\"\n[roles.worker]\ndeny = [\"key.pem\"]\nask = [\"deploy.txt\"]\n", r.port) + strings.Join(roles, ""),
		mounts: fmt.Sprintf("{ source = %q, dest = %q, read_only = true }", install, install),
		box:    fmt.Sprintf("path = [%q]", filepath.Join(install, "node_modules", ".bin")),
	})
	r.project = r.up()
	args := []string{"--base", name, "--role", "worker"}
	for _, e := range r.realAgent.env {
		args = append(args, "--env", r.fill(e))
	}
	r.add(name, args...)
	if r.setup != "" {
		r.sh(name, r.fill(r.setup))
	}
	return r
}

// small is the only line of README.md after some rounds.
func small(round int) string { return "# " + strings.Repeat("very ", round) + "small" }

// work is a task as a model does it: it reads a file and edits it, makes another, tests and commits.
func work(dir, by string, round int) []step {
	return []step{
		readStep(dir + "/README.md"),
		editStep(dir+"/README.md", small(round), small(round+1)),
		writeStep(fmt.Sprintf("%s/made%d.txt", dir, round), "made by "+by+"\n"),
		shellStep(fmt.Sprintf("grep -q made made%d.txt && grep -q very README.md && git add -A && git commit -qm 'work %d of %s'", round, round, by)),
	}
}

// TestRealAgents runs the real programs against a stand-in for their model services:
// each starts, edits, tests, commits and ends, and its branch is merged.
// POLIS_AGENTS is the directory that they were installed in with npm.
func TestRealAgents(t *testing.T) {
	install := os.Getenv("POLIS_AGENTS")
	require.NotEmpty(t, install, "make e2e-agents installs them")
	var all []*seenAgent
	for _, name := range slices.Sorted(maps.Keys(realAgents)) {
		t.Run(name, func(t *testing.T) {
			r := startReal(t, install, name)
			seen := &seenAgent{name: name, agent: r.realAgent, version: r.types()[name].Version}
			require.NotEmpty(t, seen.version)
			r.works(seen)
			r.meetsRefusals(seen)
			all = append(all, seen)
		})
	}
	file := os.Getenv("POLIS_AGENTS_DOC")
	_, throughGateway, _ := section(readFile(file), gatewayHeading)
	text := document(all, throughGateway)
	t.Log("\n" + text)
	if file != "" && !t.Failed() && len(all) == len(realAgents) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
}

// works has the agent do the work with a model that answers at once, and with one that takes its time.
func (r *realRun) works(seen *seenAgent) {
	t := r.t
	outside := r.outside(t)
	seen.outside, seen.inside = r.turns(outside, 0)
	r.model.slow(answerTime)
	seen.slowOutside, seen.slowInside = r.turns(outside, rounds())
	r.model.slow(0)
	t.Logf("outside %v\nin polis %v\nwith a slow model outside %v\nin polis %v", seen.outside, seen.inside, seen.slowOutside, seen.slowInside)
	require.Equal(t, r.types()[r.name].Context != "", r.model.knowsPolis(), "its model has the text of polis")
	seen.tools = r.model.tools()
}

// turns has the agent do the work, and the same program outside, in turns.
func (r *realRun) turns(c *control, from int) (outside, inside []timing) {
	t := r.t
	dir := strings.TrimSpace(r.sh(r.name, "pwd"))
	for round := from; round < from+rounds(); round++ {
		outside = append(outside, c.works(round))
		r.model.play(work(dir, r.name, round)...)
		inside = append(inside, r.timed("- make a file, test it and commit it"))
		got := r.settled(r.name)
		require.Equal(t, api.OutcomeMerged, got.Outcome, "%+v\n%s\n%s", got, r.must("agents", "watch", "-n", "200", r.name), r.model.log())
		require.Equal(t, "made by "+r.name+"\n", readFile(filepath.Join(r.project, fmt.Sprintf("made%d.txt", round))))
		require.Contains(t, readFile(filepath.Join(r.project, "README.md")), small(round+1), "%s", r.model.log())
		require.Contains(t, git(t, r.project, "log", "--format=%s"), fmt.Sprintf("work %d of %s", round, r.name))
	}
	return outside, inside
}

// meetsRefusals has the agent try what its role denies and what another agent holds; it reads
// who does, and continues. The task is for another model, and continues with the last session.
func (r *realRun) meetsRefusals(seen *seenAgent) {
	t := r.t
	r.add("holder")
	r.sh("holder", "echo four >> main.txt")
	require.Equal(t, "holder", r.locks()["main.txt"].Holder)
	dir := strings.TrimSpace(r.sh(r.name, "pwd"))
	r.model.play(
		readStep(dir+"/main.txt"),
		editStep(dir+"/main.txt", "two", "TWO"),
		writeStep(dir+"/key.pem", "x\n"),
		shellStep("cat /run/polis/why"),
		shellStep("echo more > more.txt && git add -A && git commit -qm 'more of "+r.name+"'"),
	)
	args := []string{"run", "--detach", "--model", r.other, r.name, "--", "- change main.txt\n- make key.pem"}
	if r.realAgent.goOn {
		args = slices.Insert(args, 2, "--continue")
	}
	r.must(args...)
	r.ended()
	got := r.settled(r.name)
	_, results := r.model.played()
	require.Equal(t, api.OutcomeMerged, got.Outcome, "%+v\n%s\n%s", got, r.must("agents", "watch", "-n", "200", r.name), r.model.log())
	require.Len(t, results, 5, "%s", r.model.log())
	why := results[3]
	require.Contains(t, why, "holder", "who holds it")
	require.Contains(t, why, "main.txt")
	require.Contains(t, why, "key.pem")
	require.NotContains(t, readFile(filepath.Join(r.project, "main.txt")), "TWO")
	require.NoFileExists(t, filepath.Join(r.project, "key.pem"))
	require.Equal(t, "more\n", readFile(filepath.Join(r.project, "more.txt")))
	require.Equal(t, path.Base(r.other), r.model.used(), "the model it was run with")
	if r.realAgent.goOn {
		require.Positive(t, r.model.earlier(), "the session it continued with")
	}
	seen.locked, seen.denied = results[1], results[2]
}
