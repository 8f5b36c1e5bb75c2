package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"

	"polis/cmd/internal/bell"
	"polis/daemon/api"
	"polis/daemon/http/client"
)

// answerScreen shows one question at a time and answers it with a key.
type answerScreen struct {
	a         *app
	c         *client.Client
	workspace string
	beside    bool        // on standard error beside the output of another command; the terminal is not raw
	away      func() bool // reports that a reason must wait, as the terminal is needed; may be nil
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
		if done, err := w.handleKey(ctx, key); done || err != nil {
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
	next := w.next(all)
	if w.shown != nil && next != nil && next.ID == w.shown.ID {
		return nil
	}
	if w.shown != nil && !isOpen(all, w.shown.ID) {
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
	return w.show(ctx, *next)
}

func isOpen(all []api.Approval, id string) bool {
	return slices.ContainsFunc(all, func(v api.Approval) bool { return v.ID == id })
}

// next returns the question to show of those that are open: the one that is shown, else the oldest that is not skipped.
func (w *answerScreen) next(all []api.Approval) *api.Approval {
	for id := range w.skipped {
		if !isOpen(all, id) {
			delete(w.skipped, id)
		}
	}
	var next *api.Approval
	for i, v := range all {
		switch {
		case w.skipped[v.ID]:
		case w.shown != nil && v.ID == w.shown.ID:
			return w.shown
		case next == nil:
			next = &all[i]
		}
	}
	return next
}

// answerKeys are the keys of approvals watch, in one line of a terminal of 80 columns. Beside the output of a task there is no quitKey.
const (
	answerKeys = "[a]pprove once, [t]ask, a[g]ent, [r]ole   [d]eny, e[x]it task   [s]kip" + quitKey
	quitKey    = "  [q]uit"
)

// show shows a question.
func (w *answerScreen) show(ctx context.Context, next api.Approval) error {
	w.shown = &next
	if whole, err := boundedApproval(ctx, w.c, next.ID); err == nil && whole.Answer == nil {
		w.shown = &whole
	}
	var buf bytes.Buffer
	p := &page{w: &buf, color: w.a.colors(), now: w.a.now(), width: w.a.columns()}
	p.line("")
	approvalPage(p, *w.shown)
	keys := answerKeys
	if w.beside {
		keys = strings.TrimSuffix(keys, quitKey)
	}
	ring := w.bell.Ring(w.a.now(), "agent "+next.Agent+" asks: "+next.ID)
	if err := w.write(ring + buf.String()); err != nil {
		return err
	}
	// What was typed before this was on the screen is not an answer to it. What is typed after the line of the keys is.
	if err := unix.IoctlSetInt(int(w.a.stdin.Fd()), unix.TCFLSH, unix.TCIFLUSH); err != nil {
		return err
	}
	return w.say(keys)
}

// reportOutcome reports the outcome of a question that was shown.
func (w *answerScreen) reportOutcome(ctx context.Context, id string) {
	text := "question " + id + " is gone"
	if v, err := boundedApproval(ctx, w.c, id); err == nil {
		text = "question " + id + " is withdrawn: what asked does not wait any more"
		if v.Answer != nil {
			text = fmt.Sprintf("question %s was answered by %s: %s", id, cmp.Or(v.Answer.Name, who(v.Answer.By)), v.Answer.Verdict)
		}
	}
	_ = w.say(text) // the next write fails, too, if this one does
}

// handleKey carries out the command of a key.
func (w *answerScreen) handleKey(ctx context.Context, key byte) (done bool, err error) {
	if !w.beside && (key == 'q' || key == 3 || key == 4) { // ^C and ^D, as the terminal is raw
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
	var line, part []byte // part is of a character that is not whole
	for {
		if w.away != nil && w.away() {
			return "", false, w.write("\n")
		}
		key, err := readKey(ctx, w.a.stdin, keyStep)
		if err != nil || ctx.Err() != nil {
			return "", false, errors.Join(err, ctx.Err(), w.write("\n"))
		}
		switch {
		case key == 0:
			continue
		case key == '\r' || key == '\n':
			return string(line), true, w.write("\n")
		case key == 3 || key == 27:
			return "", false, w.write("\n")
		case key == 127 || key == 8:
			part = nil
			if r, n := utf8.DecodeLastRune(line); n > 0 {
				line = line[:len(line)-n]
				err = w.write(strings.Repeat("\b \b", ansi.StringWidth(string(r))))
			}
		case key >= ' ':
			for part = append(part, key); utf8.FullRune(part) && err == nil; {
				r, n := utf8.DecodeRune(part)
				// A terminal acts on a C1 control, too, which is two bytes.
				if (r != utf8.RuneError || n > 1) && !unicode.IsControl(r) && len(line)+n <= api.MaxAnswerReason {
					line = append(line, part[:n]...)
					err = w.write(string(part[:n]))
				}
				part = part[n:]
			}
		}
		if err != nil {
			return "", false, err
		}
	}
}

func (w *answerScreen) say(text string) error { return w.write(clean(text) + "\n") }

// write prints to the terminal.
func (w *answerScreen) write(text string) error {
	if w.beside {
		_, err := io.WriteString(w.a.stderr, text)
		return err
	}
	return w.a.write([]byte(strings.ReplaceAll(text, "\n", "\r\n")))
}
