package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"polis/cmd/internal/bell"
	"polis/daemon/api"
	"polis/daemon/client"
	"polis/daemon/pause"
)

func (a *app) approvalsWatchCmd() *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:   "watch [--workspace W]",
		Short: "Answer questions as they come, one key each",
		Long: `Show open questions one after the other, the oldest first, and answer each with one
key:

  a  approve once           t  approve for the task
  g  approve for the agent  r  approve for the role
  d  deny, with a reason    x  deny, and end the task
  s  skip it for now        q  quit

Keys that you typed before a question was shown do not answer it. A question that
another person answers, or that is withdrawn, disappears. The terminal's bell rings
for a new question, and a terminal that supports it makes a desktop notification (OSC 9 or
OSC 777; not in screen or tmux). Without a terminal, or with --json, questions are printed as they come.`,
		Args: takes(0, 0, ""),
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only questions of agents of this `WORKSPACE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		if a.json || !isTerminal(a.stdin) || !isTerminal(a.stdout) {
			return a.printQuestions(cmd, workspace)
		}
		return a.follow(cmd, func(ctx context.Context, c *client.Client) error {
			w := &answerScreen{a: a, c: c, workspace: workspace, skipped: map[string]bool{}, bell: bell.Bell{Getenv: a.getenv}}
			return w.run(ctx)
		})
	}
	return cmd
}

// printQuestions prints every question once, until interrupted.
func (a *app) printQuestions(cmd *cobra.Command, workspace string) error {
	return a.follow(cmd, func(ctx context.Context, c *client.Client) error {
		seen := map[string]bool{}
		for {
			all, err := boundedApprovals(ctx, c, workspace)
			if err != nil {
				return err
			}
			now := map[string]bool{}
			for _, v := range all {
				now[v.ID] = true
				if seen[v.ID] {
					continue
				}
				if whole, err := boundedApproval(ctx, c, v.ID); err == nil && whole.Answer == nil {
					v = whole // with what an edit would change
				}
				var buf bytes.Buffer
				if a.json {
					err = encode(&buf, v, "")
				} else {
					err = a.render(&buf, view{json: v, names: []string{v.ID}, human: func(p *page) { approvalPage(p, v) }}, false)
				}
				if err != nil {
					return err
				}
				if err := a.write(buf.Bytes()); err != nil {
					return err
				}
			}
			seen = now
			if !pause.For(ctx, watchEvery) {
				return api.Errorf(api.CodeTimeout, "%w", context.Cause(ctx))
			}
		}
	})
}

func boundedApprovals(ctx context.Context, c *client.Client, workspace string) ([]api.Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	return c.Approvals(ctx, workspace)
}

// boundedApproval is one question with what an edit would change.
func boundedApproval(ctx context.Context, c *client.Client, id string) (api.Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	return c.Approval(ctx, id)
}

// answerKeys are the keys of approvals watch, in one line of a terminal of 80 columns.
const answerKeys = "[a]pprove once, [t]ask, a[g]ent, [r]ole   [d]eny, e[x]it task   [s]kip  [q]uit"

// answerScreen shows one question at a time and answers it with a key.
type answerScreen struct {
	a         *app
	c         *client.Client
	workspace string
	skipped   map[string]bool
	bell      bell.Bell
	shown     *api.Approval // nil: none
	idle      bool          // the line that there is none was printed
}

func (w *answerScreen) run(ctx context.Context) error {
	raw, err := makeRaw(w.a.stdin)
	if err != nil {
		return err
	}
	defer raw.restore()
	for {
		if err := w.showNext(ctx); err != nil {
			return err
		}
		key, err := readKey(ctx, w.a.stdin, watchEvery)
		if err != nil {
			return err
		}
		if key == 0 {
			if ctx.Err() != nil {
				return api.Errorf(api.CodeTimeout, "%w", context.Cause(ctx))
			}
			continue
		}
		if done, err := w.handleKey(ctx, raw, key); done || err != nil {
			return err
		}
	}
}

// showNext shows the oldest question that is not skipped, if it is not shown already.
func (w *answerScreen) showNext(ctx context.Context) error {
	all, err := boundedApprovals(ctx, w.c, w.workspace)
	if err != nil {
		return err
	}
	open := map[string]bool{}
	var next *api.Approval
	for i, v := range all {
		open[v.ID] = true
		if next == nil && !w.skipped[v.ID] {
			next = &all[i]
		}
	}
	for id := range w.skipped {
		if !open[id] {
			delete(w.skipped, id)
		}
	}
	if w.shown != nil && open[w.shown.ID] && !w.skipped[w.shown.ID] {
		return nil
	}
	if w.shown != nil && !open[w.shown.ID] {
		w.reportOutcome(ctx, w.shown.ID)
	}
	w.shown = next
	if next == nil {
		if !w.idle {
			w.idle = true
			text := "no open questions; waiting (q quits)"
			if n := len(w.skipped); n > 0 {
				text = api.Count(n, "question") + " skipped; waiting for others (q quits)"
			}
			return w.say(text)
		}
		return nil
	}
	w.idle = false
	if whole, err := boundedApproval(ctx, w.c, next.ID); err == nil && whole.Answer == nil {
		w.shown = &whole
	}
	var buf bytes.Buffer
	p := &page{w: &buf, color: w.a.colors(), now: w.a.now(), width: w.a.columns()}
	p.line("")
	approvalPage(p, *w.shown)
	p.line("%s", answerKeys)
	ring := w.bell.Ring(w.a.now(), "agent "+next.Agent+" asks: "+next.ID)
	if err := w.write(ring + buf.String()); err != nil {
		return err
	}
	// What was typed before this was on the screen is not an answer to it.
	return unix.IoctlSetInt(int(w.a.stdin.Fd()), unix.TCFLSH, unix.TCIFLUSH)
}

// reportOutcome reports the outcome of a question that was shown.
func (w *answerScreen) reportOutcome(ctx context.Context, id string) {
	text := "question " + id + " is gone"
	if v, err := boundedApproval(ctx, w.c, id); err == nil {
		text = "question " + id + " is withdrawn: what asked does not wait any more"
		if v.Answer != nil {
			text = fmt.Sprintf("question %s was answered by %s: %s", id, who(v.Answer.By), v.Answer.Verdict)
		}
	}
	_ = w.say(text) // the next write fails, too, if this one does
}

// handleKey carries out the command of a key.
func (w *answerScreen) handleKey(ctx context.Context, raw *rawTerminal, key byte) (done bool, err error) {
	if key == 'q' || key == 3 || key == 4 { // ^C and ^D, as the terminal is raw
		return true, nil
	}
	if w.shown == nil {
		return false, nil
	}
	req := api.AnswerRequest{Verdict: api.VerdictApprove, Scope: api.ScopeOnce}
	switch key {
	case 'a':
	case 't':
		req.Scope = api.ScopeTask
	case 'g':
		req.Scope = api.ScopeAgent
	case 'r':
		req.Scope = api.ScopeRole
	case 'd', 'x':
		req.Verdict = api.VerdictDeny
		if key == 'x' {
			req.Verdict = api.VerdictAbort
		}
		var ok bool
		if req.Reason, ok, err = w.reason(ctx); err != nil || !ok {
			return false, err
		}
	case 's':
		w.skipped[w.shown.ID] = true
		return false, nil
	default:
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	v, err := w.c.Answer(ctx, w.shown.ID, req)
	if err != nil {
		if api.CodeOf(err) == api.CodeUnavailable {
			return false, err
		}
		return false, w.say(api.AsError(err).Message)
	}
	w.shown = nil
	return false, w.say(answeredText(v, req))
}

// reason reads a line. ok is false if the person goes back to the question.
func (w *answerScreen) reason(ctx context.Context) (text string, ok bool, err error) {
	if err := w.write("reason for the agent (Enter: none, Escape: back): "); err != nil {
		return "", false, err
	}
	var line []byte
	for {
		key, err := readKey(ctx, w.a.stdin, watchEvery)
		if err != nil || ctx.Err() != nil {
			return "", false, errors.Join(err, ctx.Err())
		}
		switch {
		case key == 0:
			continue
		case key == '\r' || key == '\n':
			return strings.ToValidUTF8(string(line), "?"), true, w.write("\n")
		case key == 3 || key == 27:
			return "", false, w.write("\n")
		case key == 127 || key == 8:
			if len(line) > 0 {
				line = line[:len(line)-1]
				err = w.write("\b \b")
			}
		case key >= ' ' && len(line) < api.MaxAnswerReason:
			line = append(line, key)
			err = w.write(string(key))
		}
		if err != nil {
			return "", false, err
		}
	}
}

func (w *answerScreen) say(text string) error { return w.write(clean(text) + "\n") }

// write prints to a terminal in raw mode.
func (w *answerScreen) write(text string) error {
	return w.a.write([]byte(strings.ReplaceAll(text, "\n", "\r\n")))
}
