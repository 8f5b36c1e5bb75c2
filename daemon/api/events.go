package api

import "time"

// Event is one thing that happened. IDs grow, by one in a daemon's life, and
// are never given out again, also not after a restart; Last-Event-ID resumes
// from them. polisd keeps the last 4096 or so in memory: if there were others
// after the one that is resumed from, an event of type EventEventsMissed with
// the same ID comes first.
type Event struct {
	ID      uint64         `json:"id"`
	Time    time.Time      `json:"time"`
	Type    string         `json:"type"`
	Agent   string         `json:"agent,omitempty"`
	Code    Code           `json:"code,omitempty"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data,omitempty"`
}

// Probe reports whether the event is a refusal that many programs provoke at every start
// and do without. It is counted; people see it only if they ask for all.
func (e Event) Probe() bool {
	probe, _ := e.Data["probe"].(bool)
	return probe
}

// The types of events, by group. Consumers must ignore the ones that they do not know. "make docs" makes
// the table in docs/api.md from the comments, which are Markdown.

// Agents.
const (
	// An agent was added.
	EventAgentCreated = "agent:created"
	// An agent was removed.
	EventAgentRemoved = "agent:removed"
	// An agent changed its state; `data` has `from`, `to` and `reason`.
	EventAgentStatus = "agent:status"
	// An agent's limits or rules were changed; `data.changed` lists the changes.
	EventAgentSettings = "agent:settings"
	// An agent was added with the work of another one; `data` has `from`, `commit` and `leftOut`.
	EventAgentForked = "agent:forked"
	// A task was delegated; `agent` is the worker, `data` has `parent` (empty: a person), `branch` and
	// `requestId`.
	EventWorker = "agent:worker"
	// A command left processes running when it ended; `data` has `leftovers` (with `pid`, `program`,
	// `command`, `memory_bytes`, `ports`) and `do`, the rule of its role: `keep`, `end` or `ask`.
	EventLeftovers = "agent:leftovers"
	// An agent's shim was stopped and continued, does not answer, or hung and was killed.
	EventShim = "agent:shim"
	// An agent's git reached a remote through polisd.
	EventRemote = "agent:remote"
	// An agent's git wrote a ref of the agent, or with `gone` removed it; `data` has `ref` and `gone`.
	EventAgentRef = "agent:ref"
	// The worktree of an agent was broken (code `WORKTREE_CORRUPT`): its start moved it to `data.trash` and makes a new one
	// from the branch. `data` has `reason`, and `hint`, how to bring files back.
	EventWorktree = "agent:worktree"
	// A branch was pushed for review.
	EventAgentPull = "agent:pull-request"
)

// Tasks.
const (
	// An agent got a task, the task began or ended, or its branch was handled; `data` has `id`,
	// `state` (`queued`, `running`, `ended`), `outcome` (`refused`: the agent's own permission system
	// refused calls, and there is nothing to merge) and `result`; `no_checkpoint` is why there is no checkpoint
	// before it; `later` is true for what happens to it after its end. What was sent to a running agent has `via` instead.
	EventTask = "agent:task"
	// An agent's program reports its progress; `data` has `status` and `message`, and `requestId`,
	// `currentTool` and `tokensUsed` if it sent them.
	EventStatusUpdate = "agent:status-update"
	// A race began, one of its agents ended, it waits for a choice, or it ended; `data` has `race`,
	// `workspace`, `state` and `winner`.
	EventRace = "race:changed"
)

// Merges.
const (
	// A branch was merged.
	EventAgentMerged = "agent:merged"
	// A branch could not be merged; `code` is the reason.
	EventAgentMergeFailed = "agent:merge-failed"
	// An agent's work was discarded.
	EventAgentDiscarded = "agent:discarded"
	// A merge was reverted.
	EventAgentReverted = "agent:reverted"
	// A removed agent was restored.
	EventAgentRestored = "agent:restored"
	// A request to merge entered the merge queue. `data.signal` has `id`, which is the same for all
	// signals of one request. Each signal is published at least once, also after a crash of polisd:
	// `id` and `state` identify repetitions.
	EventMergeReady = "merge:ready"
	// The request is in the target (`data.signal.verified`: it was found there).
	EventMergeMerged = "merge:merged"
	// The request failed; `code` is the reason.
	EventMergeFailed = "merge:failed"
	// The request was withdrawn, with `NOTHING_TO_MERGE` because there was nothing to merge.
	EventMergeWithdrawn = "merge:withdrawn"
	// An agent got the task to resolve a failed merge; `data.signal.rework` has `agent` and `task`.
	EventMergeRework = "merge:rework"
	// A merge queue changed.
	EventQueue = "queue:changed"
	// Two branches would conflict.
	EventConflictFound = "conflict:found"
	// Two branches no longer conflict.
	EventConflictGone = "conflict:gone"
)

// Questions.
const (
	// An agent requests a permission. `data` has `id`, `kind`, `tool`, `what` and `since`
	// ([approvals](approvals.md)).
	EventApprovalAsked = "approval:asked"
	// A person answered; `data` also has `verdict`, `scope`, `by` and `reason`.
	EventApprovalAnswered = "approval:answered"
	// A person's answer to the question of a tool's call (`id`, `by`) covered the use of a file by that call: `path`, and
	// `kind`, which is `read` or `write`. One event for each file and kind of a call.
	EventApprovalCovered = "approval:covered"
	// The requesting process no longer waits.
	EventApprovalGone = "approval:withdrawn"
)

// Refusals and locks.
const (
	// An agent was refused something: `op`, `path` (a path, a name, an address or a system call),
	// `program` and `pid` where known, `errno` that the program got, and `hint`; `count` if the event stands for several refusals, with `first`, the
	// time of the first, and `others`, what they have in common, if they are not all of `path`;
	// `rule` is what decided, and `shown` is DENIED_READ or DENIED_WRITE if that is a rule that denies the path
	// (`code` is then UNDECLARED_READ or UNDECLARED_WRITE, as where no rule permits it);
	// `probe` if many programs try the call at every start and continue without it: the programs of
	// polis show it only on request. If a question was denied, `by` is the person or the list of the rule, and `reason`
	// what was answered.
	EventDenied = "access:denied"
	// An agent was refused a file that another agent holds; `data` is that of `access:denied`.
	EventLockConflict = "lock:conflict"
	// An explicit lock was taken or released.
	EventLock = "lock:changed"
	// An agent waits for a lock.
	EventLockWaiting = "lock:waiting"
	// A person broke a lock.
	EventLockBroken = "lock:broken"
	// An agent lost a lock.
	EventLockLost = "lock:lost"
	// An agent got a file after a wait, and the file has changed on the target since the agent's
	// branch left it: `path`, `target`, `commit`, `author`.
	EventLockBehind = "lock:behind"
)

// Limits.
const (
	// A process was killed for memory; `data` has its `pid`, `comm` and `bytes`, `limit_bytes`, and
	// `total` if it was not the agent's own limit, `own_program` if it was the program that polis
	// started, and a `hint`.
	EventOOM = "limit:oom"
	// An agent has been at its memory limit for 20 s and more without a kill: four fifths of it cannot
	// be dropped, or its processes waited for memory for a quarter of the time (PSI); `data` has
	// `limit_bytes`, `need_bytes`, `stalled_ms`, `since` and `hint`. At most one in 10 min.
	EventMemoryPressure = "limit:memory"
	// Forks of an agent were refused; `data` has `limit` and `refused`. At most one in 10 s.
	EventPids = "limit:pids"
	// An agent exceeded its limit of disk space; `data` has `used_bytes` and `limit_bytes`. At most
	// one in 10 s.
	EventDisk = "limit:disk"
	// An agent reached its limit of files and directories; `data` has `used_files` and `limit_files`.
	// At most one in 10 s.
	EventFiles = "limit:files"
	// An agent reached its limit of connections to the outside; `data` has `limit_connections`. At
	// most one in 10 s.
	EventConnections = "limit:connections"
)

// Ports.
const (
	// A port was mapped, or with `data.gone` no longer is; `data` has `internal`, `external`,
	// `protocol`, `bind`, and `wanted` if that external port was in use (`code` is `PORT_IN_USE`).
	EventPort = "port:changed"
	// A program of an agent connected to a host port, or could not (`data.error`); `data` has `port`,
	// `program`, `pid`, and `count`, the connections since the last such event. At most one a minute
	// for each port.
	EventHostPort = "port:host"
)

// The views of the agents.
const (
	// Another program unmounted the view of an agent on the host (`umount -l`), where programs then reached its files
	// without rules and locks. It is mounted again at `data.paths`, or is not (code `SHIM_UNAVAILABLE`, `data.error`).
	EventView = "agent:view"
)

// The network of the agents.
const (
	// Another program or an administrator changed the network of the agents (rules, bridge, addresses, links,
	// forwarding), and polisd restored it, or could not (code `BRIDGE_FAILED`). `data` has `faults`, what was
	// found, `by`, the program that changed the rules, if the kernel names it, `agents`, those whose own rules were
	// lost and are written again, and `error`. At most one a minute for the same faults; `count` are those since.
	EventNetwork = "network:changed"
	// Another firewall of the host drops packets that agents' rules let out (code `NETWORK_BLOCKED`), or, without a code,
	// drops them no longer. `data` has `reason`, which names its hook, table and chain, and `hint`, the command that
	// lets them pass.
	EventBlocked = "network:blocked"
)

// Model services.
const (
	// EventModelBudget: an agent has used 80 percent of its budget for models, or all of it: then its
	// requests are refused. Data has `percent`, `bound` (the key of the configuration), `text` and
	// `task`. Once each for a task and a day. With `role`, it is the budget that the agents of this role share.
	EventModelBudget = "model:budget"
	// An agent used model services. Data has `use` (as of GET /v1/usage), `requests`, `models`, and `task` if
	// it was in a task: the sums of the task so far, or outside of tasks those of the day. At most
	// once a minute for each, after a restart of polisd again.
	EventModelUsed = "model:used"
	// The key of a model service was replaced while an agent uses it; requests from now on have the new
	// one. Data has `service`.
	EventModelKey = "model:key"
	// EventModelUncounted: the counts of an agent's model requests cannot be written. They are in the memory of its
	// shim, budgets hold, and they are written with the next request that can be. Data: err.
	EventModelUncounted = "model:uncounted"
	// EventModelPaused: a model service asked to wait (Retry-After), and the requests of all agents to it
	// do. Data has `service` and `until`.
	EventModelPaused = "model:paused"
	// EventModelRecording: nothing more of a task is recorded, because its recording is full or cannot be
	// written. Data: task, why.
	EventModelRecording = "model:recording"
	// An agent called a service of [services]; data has `service`, `op` (the method), `path` without the
	// query, `status`, `refusal` (the code, if polis refused it), and `count`, the equal calls since the
	// last such event. At most one a minute for equal calls, and 60 a minute of an agent; `omitted` are
	// calls without an event. All are in services.log of the agent's logs.
	EventServiceCall = "service:call"
)

// Patrol.
const (
	// The patrol found an agent that died, hangs or spins; `data.finding` has the class, the evidence
	// and the action.
	EventPatrol = "agent:patrol"
	// A case of the patrol was opened, changed or resolved; `data.case` is the case, `data.change` is
	// `opened`, `updated` or `resolved`.
	EventCase = "patrol:case"
	// The processes of an agent were frozen; `data.frozen.by` is `breaker` (a circuit breaker), or `budget`: its
	// model budget is spent, and it asks for more.
	EventFrozen = "agent:frozen"
	// A person thawed the processes of an agent, or answered the question about its budget.
	EventThawed = "agent:thawed"
	// The patrol decided about an ephemeral agent whose work has ended; `data.cleanup` has the status
	// that the agent reported, the measured one, the evidence, the action (`remove`, `keep`,
	// `escalate`) and whether it was done.
	EventCleanup = "agent:cleanup"
)

// Snapshots.
const (
	// A snapshot of an agent's files was made; `data` has `snapshot`, `workspace`, `hash`,
	// `metadata_hash` and `why` (`user`, or `restore`: the state before a restore).
	EventSnapshot = "snapshot:created"
	// An agent's files were restored; `data` has `snapshot`, `before` (the snapshot of the state
	// before), `workspace` and `changed`, the number of paths.
	EventSnapshotRestored = "snapshot:restored"
	// A snapshot was deleted; `data` has `snapshot`, `workspace` and `hash`.
	EventSnapshotRemoved = "snapshot:removed"
	// Checkpoints of an agent cannot be made, with the code of the reason (`STATE_NOT_SAVED`: the disk; `QUOTA`, `TOO_LARGE`: a
	// limit), or, without a code, are made again; `data` has `workspace`.
	EventCheckpoints = "agent:checkpoints"
)

// Workspaces and polisd.
const (
	// Maintenance of a shared repository was done.
	EventMaintained = "workspace:maintained"
	// The setup command of a workspace made what agents share; `data` has `workspace`, `id`, `log`,
	// `files` and `bytes`.
	EventSetup = "workspace:setup"
	// The setup command failed (code `SETUP_FAILED`), or a result is damaged; `data` has `workspace`, and
	// `log` or `id`.
	EventSetupFailed = "workspace:setup-failed"
	// The project of a workspace is not the recorded one (code `PROJECT_CHANGED`), or, without a code, is so again;
	// `data` has `workspace`.
	EventProject = "workspace:project"
	// A workspace was removed from polis.
	EventDown = "workspace:removed"
	// A check found that objects of the target branch are missing (code `REPO_CORRUPT`), or, without a
	// code, that the repository is complete again.
	EventDamaged = "workspace:damaged"
	// Receipts of a workspace cannot be written (code `AUDIT_FULL`), or, without a code, are written again,
	// or an incomplete one that a crash left was cut; `data` has `workspace` and `cut`.
	EventReceipts = "workspace:receipts"
	// Another program removed or replaced a socket of polisd, or of the shim of `agent`, and it was made again, or could
	// not be (code `UNAVAILABLE` or `SHIM_UNAVAILABLE`, `data.error`). `data` has `path`, and `hint` if there is something
	// to do. At most one a minute for the same finding; `count` are those since.
	EventSocket = "daemon:socket"
	// The findings of a start of polisd.
	EventReconciled = "daemon:reconciled"
	// Whether the state can be saved.
	EventState = "daemon:state"
	// Events are missing here.
	EventEventsMissed = "events:missed"
	// Events of an agent's shim are missing here.
	EventMissed = "agent:events-missed"
)
