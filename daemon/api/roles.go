package api

// Role is a role of the configuration: [roles.NAME].
type Role struct {
	Name string `json:"name"`
	// Model is what programs of its agents work with, Models the same for one base type each.
	Model  string            `json:"model,omitempty"`
	Models map[string]string `json:"models,omitempty"`
	Policy Policy            `json:"policy"`
	Tools  ToolRules         `json:"tools"`
	// Egress and HostPorts are left out if they are as in [network].
	Egress    []string `json:"egress,omitempty"`
	HostPorts []uint16 `json:"host_ports,omitempty"`
	// Remote is what its agents may do with remotes; empty if it is as in [git].
	Remote      string `json:"remote,omitempty"`
	AutoCommit  bool   `json:"auto_commit,omitempty"`
	RemoveAfter *bool  `json:"remove_after,omitempty"`
	Leftovers   string `json:"leftovers,omitempty"`
	OnStall     string `json:"on_stall,omitempty"`
	// Env are the names of its variables.
	Env []string `json:"env,omitempty"`
	// Agents are those that have the role.
	Agents []string `json:"agents,omitempty"`
	// Remembered are the answers that hold for all of them.
	Remembered []ApprovalRule `json:"remembered,omitempty"`
}

// RoleCheck is the query of GET /v1/roles/{name}/check: what would be decided, without asking.
type RoleCheck struct {
	Role string `json:"role"`
	// Agent, if not empty, adds its own rules, its answers and the names of its program's tools.
	Agent string `json:"agent,omitempty"`
	// BaseType has the names of the tools, if there is no Agent; Workspace the answers of the role.
	BaseType  string `json:"base_type,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	// Tool is called with Input, or with Text for its path, command or address.
	Tool  string         `json:"tool,omitempty"`
	Input map[string]any `json:"input,omitempty"`
	Text  string         `json:"text,omitempty"`
	// Path is read, or with Write changed, by a process; then there is no Tool.
	Path  string `json:"path,omitempty"`
	Write bool   `json:"write,omitempty"`
}

// RoleDecision describes what would be decided, and why.
type RoleDecision struct {
	Role      string       `json:"role"`
	Agent     string       `json:"agent,omitempty"`
	Workspace string       `json:"workspace,omitempty"`
	Kind      ApprovalKind `json:"kind"`
	// Tool is the tool as its program calls it, Name as rules call it.
	Tool  string    `json:"tool,omitempty"`
	Name  string    `json:"name,omitempty"`
	Class ToolClass `json:"class,omitempty"`
	// What is the command, path or address.
	What string `json:"what,omitempty"`
	// Verdict is the decision: "approve", "deny", or "ask", where a person decides.
	Verdict Verdict `json:"verdict"`
	// By is what decides: "policy" (at the system call) or "tools" (rules and answers).
	By string `json:"by"`
	// Rule is the rule that decides, Source where it is from; Answer is the ID of a remembered one.
	Rule   string `json:"rule,omitempty"`
	Source string `json:"source,omitempty"`
	Answer string `json:"answer,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Then is a question that the call meets after it was approved: at the system call.
	Then string `json:"then,omitempty"`
}
