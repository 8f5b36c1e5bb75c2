// Package acpdriver runs an agent's program as an ACP agent (the Agent Client Protocol): it sends
// the task as one prompt, prints the session's updates as lines of JSON, and answers the program's
// questions with what polis decides.
//
// It owns the program it starts and ends with it. It offers the program no files and no terminals:
// those it has in the sandbox, through the view. A question that cannot be decided is rejected.
package acpdriver
