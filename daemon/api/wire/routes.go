package wire

// A Route is a request that a socket of the shim serves.
type Route struct {
	// Pattern is the method and the path, as http.ServeMux reads it.
	Pattern string
	// About describes the request in one sentence.
	About string
}

// ControlRoutes are those of shim.sock for polisd. Only root may call them.
func ControlRoutes() []Route {
	return []Route{
		{"GET /v1/ping", "Answers if the shim works."},
		{"GET /v1/status", "The state of the sandbox, its program and its port maps, and the version of the protocol."},
		{"GET /v1/why", "The last refusals."},
		{"GET /v1/events", "Events, one JSON object a line; `since` resumes. An empty line is a heartbeat."},
		{"POST /v1/start", "Start the sandbox and the agent's program."},
		{"POST /v1/stop", "Stop the program and the sandbox."},
		{"POST /v1/freeze", "Freeze the agent's processes."},
		{"POST /v1/thaw", "Thaw the agent's processes."},
		{"POST /v1/input", "Type a line into the program."},
		{"POST /v1/settings", "Change limits, rules, variables and the network of the running agent."},
		{"POST /v1/gate", "Write the rules of the agent's network again, after another program has removed them."},
		{"POST /v1/remount", "Mount the agent's views again where another program has unmounted them."},
		{"POST /v1/blocked", "Record that another firewall drops the agent's packets, for the programs in the sandbox."},
		{"POST /v1/models", "Replace the model services of the agent, with their keys and its budget."},
		{"POST /v1/models/pause", "Hold back requests to a model service until a time."},
		{"POST /v1/models/shares", "Replace what the agent may use of the budget that its role shares."},
		{"GET /v1/models/replay", "The result of the requests that are answered from a recording."},
		{"POST /v1/look", "Search the processes of the agent for listening ports now."},
		{"GET /v1/screen", "The screen of the program's terminal."},
		{"GET /v1/steps", "The steps of the task, as far as the program prints them."},
		{"GET /v1/opens", "What the agent opened and changed, if that is recorded; `life` and `after` confirm the answer before."},
		{"GET /v1/leftovers", "Processes that the last command left running."},
		{"DELETE /v1/leftovers", "End these processes."},
		{"GET /v1/approvals", "Open questions of the agent."},
		{"GET /v1/approvals/{id}", "One question."},
		{"POST /v1/approvals/{id}", "Answer a question."},
		{"POST /v1/ports", "Map a port."},
		{"DELETE /v1/ports/{port}", "Remove a port map."},
		{"POST /v1/release-idle", "Give up the leases that the agent holds and does not use."},
		{"POST /v1/changes", "Which paths of the view may have changed since an earlier request."},
		{"POST /v1/snapshots", "Mount a snapshot of the agent's files, read-only."},
		{"DELETE /v1/snapshots/{id}", "Unmount a snapshot."},
		{"POST /v1/invalidate", "Drop what the kernel caches of the view, after a change below it."},
	}
}

// TerminalRoutes are those of shim.sock for root and for members of the socket's group, for the terminals of
// polisctl. The connection then carries frames in both directions.
func TerminalRoutes() []Route {
	return []Route{
		{"POST /v1/exec", "Run a command in the sandbox."},
		{"POST /v1/attach", "Connect to the terminal of the agent's program."},
	}
}

// SandboxRoutes are those of /run/polis/api.sock in the sandbox, for the agent's processes.
func SandboxRoutes() []Route {
	return []Route{
		{"GET /v1/why", "The last refusals of the agent."},
		{"GET /v1/status", "The agent's own state and rules."},
		{"GET /v1/held", "The leases that the agent holds."},
		{"POST /v1/lock", "Take a lock."},
		{"POST /v1/unlock", "Release a lock that the agent took."},
		{"POST /v1/wait", "Wait until a path is not locked by another agent."},
		{"POST /v1/done", "End the agent's task with a result."},
		{"POST /v1/remote", "What git wants of a remote of the project: polisd does it, if the agent may."},
		{"POST /v1/said", "The next text that a person said to the agent, and that the agent takes it."},
		{"POST /v1/workers", "Delegate a task to a worker, and list, get, cancel and remove workers of the agent."},
		{"POST /v1/timeline", "List the agent's own checkpoints, make, mount and unmount one, and go back to one."},
		{"POST /v1/permission_request", "Request a permission, and wait for the answer."},
		{"POST /v1/tool_done", "Report the end of a call that was approved: its approval covers no more."},
		{"POST /v1/status_update", "Report the progress of the agent."},
		{"POST /v1/task_complete", "End the agent's task."},
	}
}
