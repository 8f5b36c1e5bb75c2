package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
	"polis/daemon/rules/hook"
)

// hookSaid prints the next text that a person said to the agent. The text counts as delivered when it is
// taken, before the program has it: two hooks of calls at the same time print it once.
func (a *app) hookSaid(cmd *cobra.Command, name string) error {
	program, ok := hook.ByName(name)
	if !ok || program.SaidFile() == "" {
		return usagef("there is no hook for what was said to %q", clean(name)).WithHint("there are hooks for claude, codex and qwen")
	}
	// The program would get EPIPE if nobody read the call.
	input, err := io.ReadAll(io.LimitReader(a.stdin, hook.MaxEnded))
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	c := client.NewInside(client.InsideSocket)
	defer c.Close()
	ended, err := program.Ended(input)
	if err != nil {
		return nil //nolint:nilerr // whose call it was is not known: the text stays for another one
	}
	if ended.Tool != "" {
		// Without this, what the call's approval covers ends by its time, or with the next question about its files.
		_ = c.ToolDone(ctx, api.ToolDone{Tool: ended.Tool, Input: ended.Input}) //nolint:errcheck // there is nobody to tell
	}
	var call struct {
		Subagent string `json:"agent_id"`
	}
	if json.Unmarshal(input, &call) != nil || call.Subagent != "" || ended.Failed() {
		return nil // the text is not for a subagent, which would keep it for itself
	}
	said, ok, err := c.TakeSaid(ctx)
	if err != nil || !ok {
		return nil //nolint:nilerr // without polisd nothing is delivered: it is the next task
	}
	out, err := program.Said(said.From, said.Text)
	if err != nil {
		return err
	}
	return a.write(out)
}
