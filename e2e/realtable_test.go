//go:build agents

package e2e

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// seenAgent is what was seen of one program.
type seenAgent struct {
	name, version   string
	agent           realAgent
	tools           []string
	outside, inside []timing
	// slowOutside and slowInside are with a model that takes answerTime for each answer.
	slowOutside, slowInside []timing
	locked, denied          string
}

// document is docs/agents.md, with a section of TestRealAgentsThroughTheGateway.
func document(all []*seenAgent, throughGateway string) string {
	var b strings.Builder
	b.WriteString(`# Agents that were run

` + "`make e2e-agents`" + ` installs these programs from npm, runs each in polis against a mock of its model service, and writes this page.
The mock runs on the host; the agent reaches it by ` + "`host_ports`" + `. It serves the Messages API of Anthropic, the Responses and Chat
Completions APIs of OpenAI and generateContent of Gemini, all streaming. The other base types (` + "`polisctl agents types`" + `) are not tested.

Each program must complete these tasks; else the run fails:

* A task whose text begins with a dash, like a Markdown list: the program reads a file, changes it, makes another, tests, commits and ends. Its branch is merged.
* A task with ` + "`--model`" + `, and with ` + "`--continue`" + ` if the base type has it: the program changes a file that another agent holds, and makes a file that
  its role denies. Both are refused. It reads the holder of the file in ` + "`/run/polis/why`" + `, continues, commits and ends. Its branch is merged.

| base type | program | API | observed | edits with | ` + "`--continue`" + ` |
|---|---|---|---|---|---|
`)
	for _, a := range all {
		continues := "yes"
		if !a.agent.continues {
			continues = "not supported"
		}
		fmt.Fprintf(&b, "| `%s` | %s %s | %s | starts, edits, tests, commits, ends, merged; continues after a refusal | %s | %s |\n",
			a.name, a.agent.pkg, a.version, a.agent.api, "`"+strings.Join(a.tools, "`, `")+"`", continues)
	}
	b.WriteString("\n" + aboutHooks)
	b.WriteString(gatewayHeading + "\n\n" + throughGateway)
	b.WriteString("## What to set\n\nThese settings select a model service other than the vendor's, or replace a login. No program needed a login. Set variables with `--env`.\n\n| base type | set |\n|---|---|\n")
	for _, a := range all {
		fmt.Fprintf(&b, "| `%s` | %s |\n", a.name, a.agent.set)
	}
	fmt.Fprintf(&b, "\n## Time\n\nSeconds; medians of %d runs, alternating with runs of the same program in a clone outside polis. The first column of each pair is outside.\n", rounds())
	b.WriteString("All times are from the start of the command. They depend on the load of the machine, so the run does not check them. Processor time in polis is that of the sandbox; the last column has that of the shim.\n")
	fmt.Fprintf(&b, "The mock answers at once, so the times are those of the programs alone. In the columns of the slow model it takes %s for each answer; the models of the vendors take longer.\n\n", answerTime)
	b.WriteString("| base type | first request | | whole task | | whole task, slow model | | ratio | processor | | shim |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, a := range all {
		pair := func(outside, inside []timing, of func(timing) time.Duration) {
			fmt.Fprintf(&b, " | %.2f | %.2f", medianOf(outside, of), medianOf(inside, of))
		}
		whole := func(t timing) time.Duration { return t.whole }
		fmt.Fprintf(&b, "| `%s`", a.name)
		pair(a.outside, a.inside, func(t timing) time.Duration { return t.first })
		pair(a.outside, a.inside, whole)
		pair(a.slowOutside, a.slowInside, whole)
		fmt.Fprintf(&b, " | %.2f", medianOf(a.slowInside, whole)/medianOf(a.slowOutside, whole))
		pair(a.outside, a.inside, func(t timing) time.Duration { return t.cpu })
		fmt.Fprintf(&b, " | %.2f |\n", medianOf(a.inside, func(t timing) time.Duration { return t.shim }))
	}
	return b.String()
}

// medianOf is the median of one part of some timings, in seconds.
func medianOf(all []timing, of func(timing) time.Duration) float64 {
	if len(all) == 0 {
		return 0
	}
	values := make([]time.Duration, len(all))
	for i, t := range all {
		values[i] = of(t)
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]).Seconds() / 2
}

const gatewayHeading = "## With the model gateway"

// aboutGateway is the section of TestRealAgentsThroughTheGateway, which follows its heading.
func aboutGateway() string {
	var b strings.Builder
	b.WriteString(`The same run has each program do the first task by the [model gateway](gateway.md), with ` + "`egress = \"none\"`" + ` and no variable, file or login for its model but
those of its base type. Its branch is merged; the key is not in the sandbox; polis and the mock have counted the same tokens.

Then it [replays](gateway.md#record-and-replay) the task from its recording, without the model and without its key. Each recorded request must be matched
(with ` + "`--by-order`" + `: answered), no other may be sent, and the replay must commit the same files; else the run fails.

| base type | kind of the service | ` + "`--model`" + ` | replay |
|---|---|---|---|
`)
	for _, name := range slices.Sorted(maps.Keys(gatewayAgents)) {
		how, replay := gatewayAgents[name], "all requests matched, same files"
		if how.differs != "" {
			replay = "with `--by-order`: same files; " + how.differs
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", name, how.kind, how.model, replay)
	}
	b.WriteString("\n")
	return b.String()
}

// section cuts a page before and after what follows a heading.
func section(page, heading string) (before, text, after string) {
	before, rest, _ := strings.Cut(page, heading+"\n\n")
	text, after, more := strings.Cut(rest, "\n## ")
	if more {
		text, after = text+"\n", "## "+after
	}
	return before + heading + "\n\n", text, after
}

// writeSection replaces a section of a page.
func writeSection(file, heading, text string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, _, after := section(string(page), heading)
	return os.WriteFile(file, []byte(before+text+after), 0o644)
}

// aboutHooks is what TestRealHooks does.
const aboutHooks = "## Hooks\n\n`claude`, `codex`, `copilot`, `gemini` and `qwen` call a hook before they use a tool, if their role has `[roles.NAME.tools]`. The same run tests these cases:\nrules answer; a person approves and denies; a locked path, a path that the policy denies, and a call that the hook cannot read are refused\nbefore the tool runs, and the model gets the reason; the program continues and commits, and its branch is merged. A command whose path has an `ask` rule\nwaits at the system call for a person, and then continues. `cline`, `opencode` and `pi` have no such hook: see\n[approvals](approvals.md#hooks-of-agents-programs).\n\n`gemini` and `opencode` are also driven by the Agent Client Protocol: they request a permission by it before a command, and a person approves; their command\nalso has a path with an `ask` rule; they commit, and their branches are merged.\n\n"
