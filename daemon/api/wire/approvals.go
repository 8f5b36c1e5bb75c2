package wire

import "polis/daemon/api"

// AnswerRequest answers a question: POST /v1/approvals/{id}, since [ApprovalsVersion].
type AnswerRequest struct {
	api.AnswerRequest
	// By is who answers, Name the name of that user, if it is known. Role is the agent's role, for api.ScopeRole.
	By   string `json:"by"`
	Name string `json:"name,omitempty"`
	Role string `json:"role,omitempty"`
}

// Answered is what a shim says to an answer that it has taken.
type Answered struct {
	Approval api.Approval `json:"approval"`
	// Rule is to be remembered, if not nil.
	Rule *api.ApprovalRule `json:"rule,omitempty"`
}
