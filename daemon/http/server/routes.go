package server

import (
	"fmt"
	"net/http"
)

// Access is the class of callers that may call a route.
type Access int

const (
	// AccessRead is for everybody who may call: root, the socket's group and read_group.
	AccessRead Access = iota
	// AccessAdmin changes something; root and the socket's group.
	AccessAdmin
	// AccessRoot is for root alone. Each class may call what is before it.
	AccessRoot
)

func (a Access) String() string {
	switch a {
	case AccessRead:
		return "read"
	case AccessAdmin:
		return "admin"
	case AccessRoot:
		return "root"
	}
	return fmt.Sprintf("Access(%d)", int(a))
}

// Route is one row of the API.
type Route struct {
	Pattern string // method and path, as http.ServeMux reads it
	Access  Access
	About   string
	serve   func(s *Server, w http.ResponseWriter, r *http.Request) error
}

// Routes is the whole API.
func Routes() []Route {
	return []Route{
		{"GET /v1/status", AccessRead, "the daemon, its workspaces and agents", (*Server).status},
		{"GET /v1/health", AccessRead, "whether the daemon works", (*Server).health},
		{"GET /v1/doctor", AccessRead, "what the machine can do for polis, and what is missing", (*Server).doctor},
		{"GET /v1/openapi.json", AccessRead, "this API as OpenAPI 3.0", (*Server).openAPI},
		{"GET /v1/events", AccessRead, "events; follow=1 streams, since or Last-Event-ID resumes", (*Server).events},
		{"GET /v1/metrics", AccessRead, "all metrics as Prometheus text", (*Server).metrics},
		{"GET /v1/top", AccessRead, "what every living agent uses now", (*Server).top},
		{"GET /v1/types", AccessRead, "base types of agents", (*Server).types},
		{"GET /v1/workspaces", AccessRead, "workspaces", (*Server).workspaces},
		{"POST /v1/workspaces", AccessAdmin, "make or find a workspace", (*Server).up},
		{"DELETE /v1/workspaces/{name}", AccessAdmin, "remove a workspace's agents, and it from the list; its directory stays; force=1 saves unsaved work in the trash, ignored=1 ignored files too", (*Server).down},
		{"GET /v1/workspaces/{name}/checks", AccessRead, "what the project of a workspace is, what of it works with agents, and what to do", (*Server).projectChecks},
		{"POST /v1/workspaces/{name}/move", AccessAdmin, "record the directory to which the project of a workspace was moved", (*Server).move},
		{"GET /v1/agents", AccessRead, "agents; workspace=NAME selects", (*Server).agents},
		{"POST /v1/agents", AccessAdmin, "add an agent", (*Server).add},
		{"GET /v1/agents/{name}", AccessRead, "one agent", (*Server).agent},
		{"PATCH /v1/agents/{name}", AccessAdmin, "change an agent's limits and rules, also while it lives", (*Server).set},
		{"DELETE /v1/agents/{name}", AccessAdmin, "remove an agent; force=1 saves unsaved work in the trash, ignored=1 ignored files too", (*Server).remove},
		{"POST /v1/agents/{name}/start", AccessAdmin, "bring an agent up and start its program, with idle=1 only make it ready for tasks; force=1 also if the machine has no room", (*Server).start},
		{"POST /v1/agents/{name}/stop", AccessAdmin, "end an agent's processes", (*Server).stop},
		{"POST /v1/agents/{name}/thaw", AccessAdmin, "let the processes of a frozen agent continue", (*Server).thaw},
		{"POST /v1/agents/{name}/run", AccessAdmin, "give an agent a task", (*Server).run},
		{"POST /v1/agents/{name}/send", AccessAdmin, "type a line into what a running agent runs", (*Server).send},
		{"POST /v1/agents/{name}/say", AccessAdmin, "say a text to an agent, whatever it does; it is delivered once, as soon as its program can take it", (*Server).say},
		{"POST /v1/broadcast", AccessAdmin, "the same for all running agents", (*Server).broadcast},
		{"POST /v1/agents/{name}/commit", AccessAdmin, "commit what an agent has in no commit, in its sandbox", (*Server).commit},
		{"POST /v1/agents/{name}/merge", AccessAdmin, "merge an agent's branch", (*Server).merge},
		{"POST /v1/agents/{name}/pull-request", AccessAdmin, "push an agent's branch and open a pull request", (*Server).pull},
		{"POST /v1/agents/{name}/remote", AccessRoot, "what an agent's git wants of a remote of the project; for the agent's shim", (*Server).remote},
		{"POST /v1/agents/{name}/workers", AccessRoot, "what an agent wants of its workers; for the agent's shim", (*Server).agentWorkers},
		{"POST /v1/agents/{name}/said", AccessRoot, "the next text that waits for an agent, and that its program takes it; for the agent's shim", (*Server).said},
		{"POST /v1/agents/{name}/own-timeline", AccessRoot, "what an agent wants of its own checkpoints; for the agent's shim", (*Server).ownTimeline},
		{"POST /v1/agents/{name}/discard", AccessAdmin, "save an agent's work in the trash and remove the agent; ignored=1: ignored files too", (*Server).discard},
		{"POST /v1/agents/{name}/revert", AccessAdmin, "take an agent's merge back", (*Server).revert},
		{"POST /v1/agents/{name}/fork", AccessAdmin, "make a new agent that begins with another one's commit, index and files", (*Server).fork},
		{"POST /v1/agents/{name}/restore", AccessAdmin, "bring a removed agent back", (*Server).restore},
		{"POST /v1/agents/{name}/rebase", AccessAdmin, "merge the target into an agent's branch, in its worktree", (*Server).rebase},
		{"GET /v1/agents/{name}/diff", AccessRead, "what an agent changed, as a patch; stat=1, names=1, committed=1", (*Server).diff},
		{"GET /v1/agents/{name}/logs", AccessRead, "output; lines=N, follow=1, raw=1", (*Server).logs},
		{"GET /v1/agents/{name}/leftovers", AccessRead, "what the agent's last command left running", (*Server).leftovers},
		{"DELETE /v1/agents/{name}/leftovers", AccessAdmin, "end what the agent's last command left running", (*Server).leftovers},
		{"GET /v1/agents/{name}/why", AccessRead, "the last refusals", (*Server).why},
		{"GET /v1/agents/{name}/policy", AccessRead, "the agent's rules", (*Server).policy},
		{"GET /v1/agents/{name}/tasks", AccessRead, "the agent's tasks", (*Server).tasks},
		{"GET /v1/tasks", AccessRead, "the last tasks of all agents, oldest first; workspace=NAME selects", (*Server).allTasks},
		{"GET /v1/tasks/{id}", AccessRead, "one task; wait=SECONDS waits for its result", (*Server).task},
		{"GET /v1/tasks/{id}/output", AccessRead, "what a task printed, as far as it is kept; raw=1", (*Server).taskOutput},
		{"GET /v1/tasks/{id}/diff", AccessRead, "what a task committed, as a patch; stat=1, names=1", (*Server).taskDiff},
		{"POST /v1/tasks/{id}/cancel", AccessAdmin, "end a task that runs, drop one that waits", (*Server).cancelTask},
		{"POST /v1/tasks/{id}/retry", AccessAdmin, "give the task to its agent once more", (*Server).retryTask},
		{"POST /v1/tasks/{id}/replay", AccessAdmin, "give a recorded task to a new agent, whose requests to model services are answered from the recording", (*Server).replay},
		{"GET /v1/agents/{name}/replay", AccessRead, "the replay that an agent was added for; wait=SECONDS waits for its end", (*Server).replayed},
		{"GET /v1/agents/{name}/attach", AccessAdmin, "where the agent's own server listens", (*Server).attach},
		{"GET /v1/workers", AccessRead, "workers: agents that were made for one task, removed ones too, oldest first; workspace=NAME selects", (*Server).workers},
		{"POST /v1/workers", AccessAdmin, "delegate a task: make a worker and give it the task", (*Server).delegate},
		{"GET /v1/workers/{id}", AccessRead, "one worker with its result; wait=SECONDS waits for that", (*Server).worker},
		{"POST /v1/workers/{id}/cancel", AccessAdmin, "end a worker's task", (*Server).cancelWorker},
		{"POST /v1/workers/cleanup", AccessAdmin, "remove workers whose task has ended; their branches and results stay", (*Server).cleanupWorkers},
		{"GET /v1/races", AccessRead, "races, oldest first; workspace=NAME selects", (*Server).races},
		{"POST /v1/races", AccessAdmin, "give one task to several new agents that begin at the same commit", (*Server).race},
		{"GET /v1/races/{id}", AccessRead, "one race; wait=SECONDS waits until it has ended or waits for a choice", (*Server).getRace},
		{"POST /v1/races/{id}/choose", AccessAdmin, "choose the winner of a race that waits for it; the work of the others is saved in the trash", (*Server).chooseRace},
		{"POST /v1/races/{id}/cancel", AccessAdmin, "end a race, and save the work of its agents in the trash", (*Server).cancelRace},
		{"POST /v1/agents/{name}/snapshots", AccessAdmin, "make a snapshot of an agent's files", (*Server).createSnapshot},
		{"GET /v1/agents/{name}/timeline", AccessRead, "checkpoints and snapshots of an agent, oldest first", (*Server).timeline},
		{"GET /v1/agents/{name}/timeline/diff", AccessRead, "how an agent's files now, or with to=WHEN at another moment, differ from those at from=WHEN", (*Server).diffTimeline},
		{"POST /v1/agents/{name}/checkpoints", AccessAdmin, "make a checkpoint of an agent's files, if something has changed", (*Server).checkpoint},
		{"POST /v1/agents/{name}/rewind", AccessAdmin, "bring an agent's files back to a checkpoint", (*Server).rewind},
		{"GET /v1/snapshots", AccessRead, "snapshots, oldest first; workspace=NAME and agent=NAME select", (*Server).snapshots},
		{"GET /v1/snapshots/{id}", AccessRead, "one snapshot", (*Server).snapshot},
		{"GET /v1/snapshots/{id}/files", AccessRead, "the files, links and directories of a snapshot", (*Server).snapshotFiles},
		{"GET /v1/snapshots/{id}/content", AccessAdmin, "the content of a file of a snapshot; path=PATH", (*Server).snapshotContent},
		{"GET /v1/snapshots/{id}/diff", AccessRead, "how the agent's files, or with to=ID another snapshot, differ from a snapshot", (*Server).diffSnapshot},
		{"GET /v1/snapshots/{id}/verify", AccessRead, "compare everything that a snapshot needs with its hashes; with worktree=true or against=AGENT also the agent's files", (*Server).verifySnapshot},
		{"POST /v1/snapshots/{id}/mount", AccessAdmin, "mount a snapshot read-only; its contents are verified when they are read", (*Server).mountSnapshot},
		{"DELETE /v1/snapshots/{id}/mount", AccessAdmin, "unmount a snapshot", (*Server).unmountSnapshot},
		{"POST /v1/snapshots/{id}/restore", AccessAdmin, "bring an agent's files back to a snapshot", (*Server).restoreSnapshot},
		{"DELETE /v1/snapshots/{id}", AccessAdmin, "delete a snapshot", (*Server).removeSnapshot},
		{"GET /v1/receipts", AccessRead, "the last receipts, oldest first; workspace, agent, type, since and limit select", (*Server).receipts},
		{"GET /v1/receipts/verify", AccessRead, "compare all receipts of a workspace with their hashes; head=HASH: that entry must be there", (*Server).verifyReceipts},
		{"GET /v1/receipts/provenance", AccessRead, "the provenance of merges as in-toto statements, one JSON object a line", (*Server).provenance},
		{"GET /v1/receipts/replay", AccessRead, "the state of a workspace at entry=N of its receipts, rebuilt from them, with what differs from it; the newest without N", (*Server).replayReceipts},
		{"GET /v1/receipts/tree", AccessRead, "the files of a target (branch) after the last merge up to entry=N of the receipts, as a tar archive", (*Server).replayTree},
		{"GET /v1/receipts/export", AccessRead, "all receipts of a workspace, one JSON object a line", (*Server).exportReceipts},
		{"GET /v1/who", AccessAdmin, "who read, or with op=wrote wrote, a path; path, line, checkpoint, agent, workspace, since and limit select", (*Server).who},
		{"GET /v1/blame", AccessAdmin, "which commit, agent and task each line of a file is of; path=PATH, agent=NAME reads the file of an agent", (*Server).blame},
		{"GET /v1/queue", AccessRead, "merge queues; workspace=NAME selects", (*Server).queues},
		{"POST /v1/queue", AccessAdmin, "put an agent in the merge queue", (*Server).enqueue},
		{"POST /v1/queue/{agent}", AccessAdmin, "give an agent's entry another priority", (*Server).prioritize},
		{"POST /v1/queue/{agent}/rework", AccessAdmin, "give the task to resolve an agent's failed merge to a new agent, or to the agent itself", (*Server).rework},
		{"GET /v1/queue/{agent}/log", AccessRead, "a check of an agent's branch, and the end of its output; check, id, lines and workspace select", (*Server).checkLog},
		{"GET /v1/queue/{agent}/log/output", AccessRead, "all that a check of an agent's branch printed; check, id and workspace select", (*Server).checkOutput},
		{"DELETE /v1/queue/{agent}", AccessAdmin, "take an agent out of the merge queue", (*Server).dequeue},
		{"POST /v1/gc", AccessAdmin, "delete old work from the trash", (*Server).gc},
		{"GET /v1/locks", AccessRead, "leases; workspace=NAME selects", (*Server).locks},
		{"GET /v1/usage", AccessRead, "what agents used of model services; by=agent, task, model or day; since=YYYY-MM-DD", (*Server).usage},
		{"GET /v1/conflicts", AccessRead, "what agents would run into when merged; workspace=NAME selects", (*Server).conflicts},
		{"POST /v1/locks", AccessAdmin, "take a lock", (*Server).lock},
		{"DELETE /v1/locks", AccessAdmin, "give a lock back, or break one", (*Server).unlock},
		{"GET /v1/approvals", AccessRead, "open questions of agents, oldest first; workspace=NAME selects", (*Server).approvals},
		{"GET /v1/approvals/{id}", AccessRead, "one question, open or answered not long ago", (*Server).approval},
		{"POST /v1/approvals/{id}", AccessAdmin, "answer a question; the first answer counts", (*Server).answer},
		{"GET /v1/approval-rules", AccessRead, "answers that are remembered; workspace=NAME selects", (*Server).approvalRules},
		{"DELETE /v1/approval-rules/{id}", AccessAdmin, "revoke a remembered answer", (*Server).revokeApproval},
		{"GET /v1/roles", AccessRead, "roles of the configuration", (*Server).roles},
		{"GET /v1/roles/{name}", AccessRead, "one role, with its agents and the answers that are remembered for them", (*Server).role},
		{"GET /v1/roles/{name}/check", AccessRead, "what would be decided about a call of a tool, or about a path; no question is made", (*Server).checkRole},
		{"GET /v1/policy/learn", AccessRead, "a role that allows what agent=NAME used in record mode; run=N selects a run, -1 the newest", (*Server).learnPolicy},
		{"GET /v1/policy/check", AccessRead, "what role=NAME would have refused of what agent=NAME used in record mode", (*Server).checkPolicy},
		{"GET /v1/setups", AccessRead, "what the setup commands of the workspaces made; workspace=NAME selects", (*Server).setups},
		{"POST /v1/setups", AccessAdmin, "run the setup command for the target branch of a workspace, and wait for its end", (*Server).runSetup},
		{"GET /v1/setups/log", AccessRead, "the end of the output of the last setup command; workspace=NAME selects", (*Server).setupLog},
		{"GET /v1/maintenance", AccessRead, "the last maintenance of the shared repositories; workspace=NAME selects", (*Server).maintenance},
		{"POST /v1/maintenance", AccessAdmin, "do maintenance of a shared repository now", (*Server).maintain},
		{"GET /v1/patrol", AccessRead, "the last cycle of the patrol: what it saw, found and did", (*Server).lastPatrol},
		{"POST /v1/patrol", AccessAdmin, "do a cycle of the patrol now", (*Server).patrol},
		{"GET /v1/patrol/cases", AccessRead, "what the patrol left open, oldest first; workspace=NAME selects, all=1 adds the resolved ones", (*Server).cases},
		{"GET /v1/patrol/cases/{id}", AccessRead, "one case of the patrol", (*Server).patrolCase},
		{"POST /v1/patrol/cases/{id}/resolve", AccessAdmin, "resolve a case of the patrol", (*Server).resolveCase},
		{"GET /v1/ports", AccessRead, "port maps", (*Server).ports},
		{"POST /v1/ports", AccessAdmin, "map a port", (*Server).mapPort},
		{"DELETE /v1/ports/{agent}/{internal}", AccessAdmin, "end a port map", (*Server).unmapPort},
	}
}
