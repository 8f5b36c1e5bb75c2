package api

import "time"

// ApprovalKind is what a question is about.
type ApprovalKind string

// The kinds of questions.
const (
	ApprovalTool   ApprovalKind = "tool"   // a tool of the agent's program
	ApprovalRead   ApprovalKind = "read"   // reading a path
	ApprovalWrite  ApprovalKind = "write"  // writing a path
	ApprovalEgress ApprovalKind = "egress" // a name outside
	ApprovalGit    ApprovalKind = "git"    // an exchange with a remote
	ApprovalLock   ApprovalKind = "lock"   // a lock of a tree
	ApprovalMemory ApprovalKind = "memory" // more memory
	ApprovalBudget ApprovalKind = "budget" // a larger budget for models
)

// ApprovalKinds are all of them.
func ApprovalKinds() []ApprovalKind {
	return []ApprovalKind{ApprovalTool, ApprovalRead, ApprovalWrite, ApprovalEgress, ApprovalGit, ApprovalLock, ApprovalMemory, ApprovalBudget}
}

// ToolClass is what a tool of an agent's program does. It follows from the tool's name.
type ToolClass string

// The classes of tools.
const (
	ToolRead  ToolClass = "read"
	ToolEdit  ToolClass = "edit"
	ToolShell ToolClass = "shell"
	ToolNet   ToolClass = "net"
	ToolOther ToolClass = "other"
)

// ToolClasses are all of them.
func ToolClasses() []ToolClass {
	return []ToolClass{ToolRead, ToolEdit, ToolShell, ToolNet, ToolOther}
}

// Verdict is an answer to a question.
type Verdict string

// The verdicts. VerdictAsk is of rules only: a person decides.
const (
	VerdictApprove Verdict = "approve"
	VerdictDeny    Verdict = "deny"
	VerdictAbort   Verdict = "abort" // denied, and the agent's task ends
	VerdictAsk     Verdict = "ask"
)

// AnswerScope is what an answer holds for.
type AnswerScope string

// The scopes. For agents and roles the answer becomes an ApprovalRule.
const (
	ScopeOnce  AnswerScope = "once"
	ScopeTask  AnswerScope = "task"
	ScopeAgent AnswerScope = "agent"
	ScopeRole  AnswerScope = "role"
)

// MaxAnswerReason bounds the reason of an answer, in bytes.
const MaxAnswerReason = 1000

// Approval is a question of an agent. Text that the agent chose (Tool, What, Detail, Program) is
// escaped: it has no control characters and nothing that looks empty or reorders text.
type Approval struct {
	// ID is the agent's name, a dot and letters that are never given out again.
	ID        string       `json:"id"`
	Agent     string       `json:"agent"`
	Workspace string       `json:"workspace,omitempty"`
	Role      string       `json:"role,omitempty"`
	Task      string       `json:"task,omitempty"`
	Kind      ApprovalKind `json:"kind"`
	Tool      string       `json:"tool,omitempty"`
	Class     ToolClass    `json:"class,omitempty"`
	// What is the command, path or host; WhatHidden is how many bytes of it are left out at the end.
	What       string `json:"what"`
	WhatHidden int    `json:"what_hidden,omitempty"`
	// Detail is all the arguments; DetailHidden is how many bytes of them are left out at the end.
	Detail       string `json:"detail,omitempty"`
	DetailHidden int    `json:"detail_hidden,omitempty"`
	// Diff is what the call of an editing tool would change, as lines of a unified diff, each escaped;
	// DiffHidden is how many lines are left out at the end. Only a single question has it.
	Diff       []string `json:"diff,omitempty"`
	DiffHidden int      `json:"diff_hidden,omitempty"`
	// Note is what polis itself says of the question, such as the rule that asks.
	Note string `json:"note,omitempty"`
	// PID and Program are the process that asked, on the host.
	PID     int    `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
	// Callers is how many calls wait for the answer.
	Callers  int       `json:"callers"`
	Since    time.Time `json:"since"`
	Deadline time.Time `json:"deadline"`
	// Remember is the rule that an answer for the agent or the role adds; empty if there is none.
	Remember string `json:"remember,omitempty"`
	// Answer is how it ended; nil while it is open.
	Answer *Answer `json:"answer,omitempty"`
}

// Answer ends a question.
type Answer struct {
	Verdict Verdict     `json:"verdict"`
	Scope   AnswerScope `json:"scope,omitempty"`
	// Reason is for the agent.
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
	// Name is the name of the user who answered; By is used if it is not known.
	Name string    `json:"name,omitempty"`
	At   time.Time `json:"at,omitzero"`
	// Role is the agent's role, with ScopeRole.
	Role string `json:"role,omitempty"`
	// Rule is the rule that answered, if no person did.
	Rule string `json:"rule,omitempty"`
	// Raise is how much the budget of the question is raised by; 0: as the question says.
	Raise float64 `json:"raise,omitempty"`
}

// AnswerRequest answers a question.
type AnswerRequest struct {
	Verdict Verdict `json:"verdict"`
	// Scope is "once" if it is left out.
	Scope  AnswerScope `json:"scope,omitempty"`
	Reason string      `json:"reason,omitempty"`
	// Raise is how much an approval raises the budget of a question of kind ApprovalBudget by: whole tokens, or units of the
	// prices' currency. If it is left out, the budget is raised as the question says.
	Raise float64 `json:"raise,omitempty"`
}

// ApprovalRule is an answer that is remembered, for an agent or for all agents of a role in a
// workspace.
type ApprovalRule struct {
	// ID is that of the question.
	ID        string       `json:"id"`
	Workspace string       `json:"workspace,omitempty"`
	Agent     string       `json:"agent,omitempty"`
	Role      string       `json:"role,omitempty"`
	Verdict   Verdict      `json:"verdict"`
	Kind      ApprovalKind `json:"kind"`
	Tool      string       `json:"tool,omitempty"`
	// What is matched exactly.
	What string    `json:"what"`
	By   string    `json:"by,omitempty"`
	At   time.Time `json:"at"`
	// Reason is for the agent, if the verdict is deny.
	Reason string `json:"reason,omitempty"`
	// Text is the rule for people, escaped.
	Text string `json:"text,omitempty"`
}

// ToolRules decide about tools of an agent's program: those of its role.
type ToolRules struct {
	// AutoApprove, AutoDeny and Ask are rules: a class, a tool, or one of them with a pattern
	// in parentheses. AutoDeny is first, then Ask, then AutoApprove.
	AutoApprove []string `json:"auto_approve,omitempty" toml:"auto_approve"`
	AutoDeny    []string `json:"auto_deny,omitempty" toml:"auto_deny"`
	Ask         []string `json:"ask,omitempty" toml:"ask"`
	// Default is "ask" ("" too), "approve" or "deny".
	Default Verdict `json:"default,omitempty" toml:"default"`
}

// Empty reports whether there are no rules at all.
func (r ToolRules) Empty() bool {
	return len(r.AutoApprove)+len(r.AutoDeny)+len(r.Ask) == 0 && r.Default == ""
}

// Waiting is what an agent waits for.
type Waiting struct {
	// For is "approval", "lease" or "thaw".
	For   string    `json:"for"`
	Since time.Time `json:"since"`
	// ID is the question's, Path the lease's.
	ID   string `json:"id,omitempty"`
	Path string `json:"path,omitempty"`
	// What is a line for people; Open is how many questions there are.
	What string `json:"what,omitempty"`
	Open int    `json:"open,omitempty"`
}

// What an agent can wait for.
const (
	WaitingApproval = "approval"
	WaitingLease    = "lease"
	WaitingThaw     = "thaw" // it is frozen
)

// PermissionRequest asks for a permission, in a sandbox (seed 003, "permission_request").
type PermissionRequest struct {
	// Type is "permission_request", or left out.
	Type string `json:"type,omitempty"`
	// RequestID is the asker's own; it can be used once.
	RequestID string `json:"requestId,omitempty"`
	// Tool is the tool's name, Input its arguments.
	Tool  string         `json:"tool"`
	Input map[string]any `json:"input,omitempty"`
	// TimeoutSeconds bounds the wait; 0: an hour.
	TimeoutSeconds int `json:"timeout_seconds,omitempty"`
}

// PermissionResponse answers PermissionRequest (seed 003, "permission_response").
type PermissionResponse struct {
	Type      string `json:"type"`
	RequestID string `json:"requestId,omitempty"`
	// ID is the question's; empty if a rule decided.
	ID string `json:"id,omitempty"`
	// Result is "approve", "deny" or "abort".
	Result Verdict `json:"result"`
	Reason string  `json:"reason,omitempty"`
	// Rule is the rule that decided, if no person did.
	Rule string `json:"rule,omitempty"`
}

// StatusUpdate describes the progress of an agent's program, in a sandbox (seed 003, "status_update").
type StatusUpdate struct {
	// Type is "status_update", or left out.
	Type      string `json:"type,omitempty"`
	RequestID string `json:"requestId,omitempty"`
	// Status is a word, such as "thinking", "tool_call" or "waiting"; Message a line for people. One
	// of them is needed.
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	// Tool is the tool that is used now, Tokens what the model has used so far.
	Tool   string      `json:"currentTool,omitempty"`
	Tokens *TokensUsed `json:"tokensUsed,omitempty"`
}

// TokensUsed are tokens of a model.
type TokensUsed struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// StatusUpdated answers StatusUpdate.
type StatusUpdated struct {
	Type      string `json:"type"`
	RequestID string `json:"requestId,omitempty"`
}

// ToolDone says that a call of a tool has ended, in a sandbox: what a person's approval of it covers ends, too.
type ToolDone struct {
	// Type is "tool_done", or left out.
	Type      string `json:"type,omitempty"`
	RequestID string `json:"requestId,omitempty"`
	// Tool and Input are those of the PermissionRequest.
	Tool  string         `json:"tool"`
	Input map[string]any `json:"input,omitempty"`
}

// ToolEnded answers ToolDone.
type ToolEnded struct {
	Type      string `json:"type"`
	RequestID string `json:"requestId,omitempty"`
}

// TaskComplete ends the task of the agent that sends it, in its sandbox (seed 003,
// "task_complete").
type TaskComplete struct {
	// Type is "task_complete", or left out.
	Type      string `json:"type,omitempty"`
	RequestID string `json:"requestId,omitempty"`
	// Success is true if it is left out; the branch of a task without success is not merged.
	Success *bool  `json:"success,omitempty"`
	Message string `json:"message,omitempty"`
}
