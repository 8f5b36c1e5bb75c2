package approval

import (
	"crypto/sha256"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"polis/daemon/api"
)

// Bounds of a question, in bytes.
const (
	MaxText   = 64 << 10 // the command, path or host
	MaxTool   = 200      // the name of a tool
	MaxDetail = 512 << 10
	// MaxShown is how much of the text, and of the detail, a person is shown.
	MaxShown = 8 << 10
	// MaxRemembered is the longest text that can be remembered.
	MaxRemembered = 1 << 10
)

// Question is one question, in the characters of its caller.
type Question struct {
	Kind api.ApprovalKind
	// Tool, Name and Class are of ApprovalTool only: the tool as its program calls it, as rules
	// call it, and what it does.
	Tool  string
	Name  string
	Class api.ToolClass
	// Text is what rules match: the command, path or host. Detail is all of it.
	Text   string
	Detail string
	// Paths are those of Text, if a tool works on files.
	Paths []string
	// Call is how the steps of a task show the call of a tool.
	Call string
	// Note is what polis itself says of the question, such as the rule that asks.
	Note string
	// Request is the asker's own ID; "" for none.
	Request string
	// Task is the agent's task; an answer for the task ends with it.
	Task string
	// PID and Program are the process that asks.
	PID     int
	Program string
	// Raise bounds the amounts that an answer can name; nil: it names none.
	Raise *Raise
}

// Raise bounds what an answer raises a budget by.
type Raise struct {
	// Least is the least amount that leaves something, in Unit. Whole: parts of a unit are refused.
	Least float64
	Whole bool
	Unit  string
}

// maxRaise bounds an amount, as the configuration bounds budgets.
const maxRaise = 1e15

// checkRaise returns why an answer cannot raise the budget of the question by an amount.
func (q Question) checkRaise(a api.Answer) error {
	switch r := q.Raise; {
	case a.Raise == 0:
		return nil
	case r == nil:
		return api.Errorf(api.CodeBadRequest, "raise: the question is not about a budget").WithHint("answer it without an amount")
	case a.Verdict != api.VerdictApprove:
		return api.Errorf(api.CodeBadRequest, "raise: verdict = %q raises nothing", a.Verdict).WithHint("approve it, or answer it without an amount")
	case a.Scope != "" && a.Scope != api.ScopeOnce:
		return api.Errorf(api.CodeBadRequest, "raise: an amount is not remembered: scope = %q", a.Scope).WithHint("answer it once")
	case !(a.Raise > 0 && a.Raise <= maxRaise) || r.Whole && a.Raise != math.Trunc(a.Raise):
		return api.Errorf(api.CodeBadRequest, "raise = %v: must be a number of %s above 0 and at most %.0f", a.Raise, r.Unit, maxRaise).WithHint("the unit is that of the budget")
	case a.Raise < r.Least:
		return api.Errorf(api.CodeBadRequest, "raise = %v: the agent has used more than that already", a.Raise).WithHint("raise it by %s %s or more", strconv.FormatFloat(r.Least, 'f', -1, 64), r.Unit)
	}
	return nil
}

func (q Question) check() error {
	switch {
	case !slices.Contains(api.ApprovalKinds(), q.Kind):
		return api.Errorf(api.CodeBadRequest, "kind = %q: there is no such kind of question", api.Shorten(string(q.Kind), 32))
	case q.Kind == api.ApprovalTool && q.Tool == "" || len(q.Tool) > MaxTool || !utf8.ValidString(q.Tool) || strings.ContainsAny(q.Tool, "()\x00\n"):
		return api.Errorf(api.CodeBadRequest, "tool = %q: must be a name of 1 to %d bytes without parentheses", api.Shorten(q.Tool, 64), MaxTool)
	case len(q.Text) > MaxText:
		return api.Errorf(api.CodeTooLarge, "the question has %d bytes: at most %d", len(q.Text), MaxText)
	case len(q.Detail) > MaxDetail:
		return api.Errorf(api.CodeTooLarge, "the arguments have %d bytes: at most %d", len(q.Detail), MaxDetail)
	case len(q.Request) > 200:
		return api.Errorf(api.CodeBadRequest, "requestId has %d bytes: at most 200", len(q.Request))
	}
	return nil
}

// rememberable is why the question cannot be remembered; nil if it can. What is remembered passes
// through JSON, which has no bytes that are not UTF-8: they would become another text.
func (q Question) rememberable() error {
	switch {
	case len(q.Text) > MaxRemembered:
		return api.Errorf(api.CodeBadRequest, "it has %d bytes: at most %d can be remembered", len(q.Text), MaxRemembered)
	case !utf8.ValidString(q.Text):
		return api.Errorf(api.CodeBadRequest, "it is not UTF-8, and cannot be remembered")
	}
	return nil
}

// key is equal for equal questions. What follows is the same for a person and for the asker.
type key [sha256.Size]byte

func (q Question) key() key {
	h := sha256.New()
	for _, s := range []string{string(q.Kind), q.Tool, q.Text, q.Detail, q.Task} {
		n := len(s)
		_, _ = h.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}) // a hash never fails
		_, _ = h.Write([]byte(s))
	}
	return key(h.Sum(nil))
}

// Line is a question in one line; tool and what are escaped already.
func Line(kind api.ApprovalKind, tool, what string) string {
	if tool != "" {
		tool = " " + tool
	}
	return string(kind) + tool + " " + what
}

// RuleText is a rule for one text of a tool, or of another kind, as people read it.
func RuleText(kind api.ApprovalKind, tool, text string) string {
	name := tool
	if kind != api.ApprovalTool {
		name = string(kind)
	}
	shown, hidden := Bounded(text, MaxRemembered)
	if hidden > 0 {
		shown += "..."
	}
	if text == "" {
		return Escape(name)
	}
	return Escape(name) + "(" + shown + ")"
}
