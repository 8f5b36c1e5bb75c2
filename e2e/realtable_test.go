//go:build agents

package e2e

import (
	"fmt"
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
	locked, denied  string
}

// document is docs/agents.md.
func document(all []*seenAgent) string {
	var b strings.Builder
	b.WriteString(`# Agents that were run

` + "`make e2e-agents`" + ` installs these programs from npm, runs each in polis against a stand-in for its model service, and writes this page.
The stand-in is on the host; the agent reaches it by ` + "`host_ports`" + `. It answers the Messages API of Anthropic, the Responses and Chat
Completions APIs of OpenAI and generateContent of Gemini, all streaming. The other base types (` + "`polisctl agents types`" + `) are not part of it.

Each program does this, and the run fails if one does not:

* A task that begins with a dash, as a Markdown list does: it reads a file, changes it, makes another, tests, commits and ends. Its branch is merged.
* A task with ` + "`--model`" + `, and with ` + "`--continue`" + ` if the base type has it: it changes a file that another agent holds, and makes one that
  its role denies. Both are refused. It reads in ` + "`/run/polis/why`" + ` who holds the file, goes on, commits and ends. Its branch is merged.

| base type | program | API | seen | edits with | ` + "`--continue`" + ` |
|---|---|---|---|---|---|
`)
	for _, a := range all {
		goOn := "yes"
		if !a.agent.goOn {
			goOn = "it cannot"
		}
		fmt.Fprintf(&b, "| `%s` | %s %s | %s | starts, edits, tests, commits, ends, merged; goes on when refused | %s | %s |\n",
			a.name, a.agent.pkg, a.version, a.agent.api, "`"+strings.Join(a.tools, "`, `")+"`", goOn)
	}
	b.WriteString("\n" + aboutHooks)
	b.WriteString("## What to set\n\nWith a model service other than the vendor's, or without a login. No program needed one. Variables are given by `--env`.\n\n| base type | set |\n|---|---|\n")
	for _, a := range all {
		fmt.Fprintf(&b, "| `%s` | %s |\n", a.name, a.agent.set)
	}
	fmt.Fprintf(&b, "\n## Time\n\nSeconds, medians of %d runs in turns with the same program in a clone outside polis. The first column of each pair is outside.\n", rounds())
	b.WriteString("Both are from the command. A busy machine changes them, so nothing is asserted. Processor time in polis is that of the sandbox; the shim's is besides.\n\n")
	b.WriteString("| base type | first request | | whole task | | processor | | shim |\n|---|---|---|---|---|---|---|---|\n")
	for _, a := range all {
		fmt.Fprintf(&b, "| `%s`", a.name)
		for _, of := range []func(timing) time.Duration{func(t timing) time.Duration { return t.first }, func(t timing) time.Duration { return t.whole }, func(t timing) time.Duration { return t.cpu }} {
			fmt.Fprintf(&b, " | %.2f | %.2f", medianOf(a.outside, of), medianOf(a.inside, of))
		}
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

// aboutHooks is what TestRealHooks does.
const aboutHooks = "## Hooks\n\n`claude`, `codex`, `copilot`, `gemini` and `qwen` ask before they use a tool, if their role has `[roles.NAME.tools]`. The same run drives them through it, and fails if one does not:\nrules answer; a person approves and denies; a locked path, a path that the policy denies, and a call that the hook cannot read are refused\nbefore the tool runs, and the model reads why; the program goes on, commits and is merged. A command whose path has an `ask` rule\nwaits at the system call for a person, and goes on. `cline`, `opencode` and `pi` have no such hook: see\n[approvals](approvals.md#hooks-of-agents-programs).\n\n`gemini` and `opencode` are also driven by the Agent Client Protocol: they ask by it before a command, and a person approves; their command meets\nan `ask` rule, too; they commit and are merged.\n\n"
