package wire

// Paths in the sandbox.
const (
	// InsideDir has the socket and the files for the agent.
	InsideDir = "/run/polis"
	// ToolPath is where the sandbox has polisctl, if polisd found it.
	ToolPath = InsideDir + "/bin/polisctl"
	// AdapterPath is where it has polis-adapter, if polisd found it.
	AdapterPath = InsideDir + "/bin/polis-adapter"
	// ContextPath has the text for the agent's model.
	ContextPath = InsideDir + "/AGENTS.md"
)
