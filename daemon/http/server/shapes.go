package server

import (
	"polis/daemon/api"
	"polis/daemon/config"
)

// shape is what goes in and out of a route, for the OpenAPI document.
type shape struct {
	query []query
	in    any // the body; nil for none
	// optional: the body may be left out.
	optional bool
	out      any // the answer; nil is an empty object
	// list: the answer is an object with this one field, a list of out.
	list string
	// made: the status of a new thing, 201, beside or in place of 200.
	made bool
	// steps: with Accept: application/x-ndjson the steps are streamed, one per line.
	steps bool
	// text is the media type of an answer that is no JSON.
	text string
}

type query struct {
	name, kind, about string
}

var (
	ofWorkspace = query{"workspace", "string", "only those of this workspace"}
	ignored     = query{"ignored", "boolean", "save ignored files, too"}
	raw         = query{"raw", "boolean", "what the program printed, if polis reads that and shows steps instead"}
	follow      = query{"follow", "boolean", "send what comes until the caller ends"}
)

// usedBy is the query about what an agent used.
func usedBy(role string) []query {
	return []query{{"agent", "string", "the agent"}, {"role", "string", role}, {"run", "integer", "the number of a run, -1 for the newest; 0 for all"}}
}

// shapes is by the pattern of the route. A test wants one for every route.
func shapes() map[string]shape {
	return map[string]shape{
		"GET /v1/status":       {out: api.DaemonStatus{}},
		"GET /v1/health":       {out: map[string]string{}},
		"GET /v1/doctor":       {out: api.DoctorReport{}},
		"GET /v1/openapi.json": {out: map[string]any{}},
		"GET /v1/events": {out: api.Event{}, list: "events", text: "text/event-stream",
			query: []query{follow, {"since", "integer", "only events after this one; the header Last-Event-ID is stronger"}}},
		"GET /v1/metrics":                  {text: "text/plain"},
		"GET /v1/top":                      {out: api.Top{}},
		"GET /v1/types":                    {out: config.BaseType{}, list: "types"},
		"GET /v1/workspaces":               {out: api.Workspace{}, list: "workspaces"},
		"POST /v1/workspaces":              {in: api.UpRequest{}, out: api.UpResponse{}, made: true, steps: true},
		"GET /v1/workspaces/{name}/checks": {out: api.ProjectReport{}},
		"POST /v1/workspaces/{name}/move":  {in: api.MoveRequest{}, out: api.Workspace{}},
		"DELETE /v1/workspaces/{name}":     {out: api.DownResponse{}, query: []query{{"force", "boolean", "also if agents run or have unsaved work; the work is saved in the trash"}, ignored}},

		"GET /v1/agents":           {out: api.Agent{}, list: "agents", query: []query{ofWorkspace}},
		"POST /v1/agents":          {in: api.AddRequest{}, out: api.Agent{}, made: true, steps: true},
		"GET /v1/agents/{name}":    {out: api.Agent{}},
		"PATCH /v1/agents/{name}":  {in: api.SetRequest{}, out: api.SetResponse{}},
		"DELETE /v1/agents/{name}": {out: api.RemoveResponse{}, query: []query{{"force", "boolean", "also one that runs or has unsaved work; the work is saved in the trash"}, ignored}},

		"POST /v1/agents/{name}/start":   {out: api.Agent{}, query: []query{{"force", "boolean", "also if the machine has no room for it"}, {"idle", "boolean", "only its sandbox, without its command"}}},
		"POST /v1/agents/{name}/stop":    {out: api.Agent{}},
		"POST /v1/agents/{name}/thaw":    {out: api.Agent{}},
		"POST /v1/agents/{name}/run":     {in: api.RunRequest{}, out: api.Task{}},
		"POST /v1/agents/{name}/send":    {in: api.SendRequest{}, out: api.Task{}},
		"POST /v1/agents/{name}/say":     {in: api.SayRequest{}, out: api.SayResponse{}},
		"POST /v1/agents/{name}/said":    {in: api.SaidRequest{}, out: api.SaidResponse{}},
		"POST /v1/broadcast":             {in: api.BroadcastRequest{}, out: api.BroadcastResponse{}},
		"POST /v1/agents/{name}/commit":  {in: api.CommitRequest{}, optional: true, out: api.CommitResponse{}},
		"POST /v1/agents/{name}/merge":   {in: api.MergeRequest{}, optional: true, out: api.MergeResponse{}},
		"POST /v1/agents/{name}/discard": {out: api.RemoveResponse{}, query: []query{ignored}},
		"POST /v1/agents/{name}/revert":  {in: api.RevertRequest{}, optional: true, out: api.RevertResponse{}},
		"POST /v1/agents/{name}/fork":    {in: api.ForkRequest{}, out: api.ForkResponse{}, made: true},
		"POST /v1/agents/{name}/restore": {in: api.RestoreRequest{}, optional: true, out: api.Agent{}, made: true},
		"POST /v1/agents/{name}/rebase":  {out: api.RebaseResponse{}},
		"GET /v1/agents/{name}/diff": {text: "text/x-diff", query: []query{{"stat", "boolean", "only how much"},
			{"names", "boolean", "only which files"}, {"committed", "boolean", "only what is committed"}}},
		"GET /v1/workers":                     {out: api.Worker{}, list: "workers", query: []query{ofWorkspace}},
		"POST /v1/workers":                    {in: api.DelegateRequest{}, out: api.Worker{}, made: true},
		"GET /v1/workers/{id}":                {out: api.Worker{}, query: []query{{"wait", "integer", "wait so many seconds, at most 300, until the result is final and the program has exited"}}},
		"POST /v1/workers/{id}/cancel":        {out: api.Worker{}},
		"POST /v1/workers/cleanup":            {in: api.CleanupRequest{}, optional: true, out: api.CleanupResponse{}},
		"POST /v1/agents/{name}/workers":      {in: api.WorkersRequest{}, out: api.WorkersResponse{}},
		"GET /v1/queue":                       {out: api.Queue{}, list: "queues", query: []query{ofWorkspace}},
		"POST /v1/queue":                      {in: api.QueueRequest{}, out: api.QueueEntry{}, made: true},
		"POST /v1/queue/{agent}":              {in: api.QueueRequest{}},
		"POST /v1/queue/{agent}/rework":       {in: api.ReworkRequest{}, optional: true, out: api.MergeSignal{}},
		"GET /v1/queue/{agent}/log":           {out: api.CheckLog{}, query: append(ofCheck(), query{"lines", "integer", "at most so many of the last lines, at most 10000; as many as 256 KiB have if not given"})},
		"GET /v1/queue/{agent}/log/output":    {text: "text/plain", query: ofCheck()},
		"DELETE /v1/queue/{agent}":            {},
		"POST /v1/gc":                         {in: api.GCRequest{}, optional: true, out: api.GCResponse{}},
		"POST /v1/agents/{name}/pull-request": {in: api.PullRequest{}, optional: true, out: api.PullResponse{}},
		"POST /v1/agents/{name}/remote":       {in: api.RemoteRequest{}, out: api.RemoteResponse{}, steps: true},
		"GET /v1/agents/{name}/logs":          {text: "text/plain", query: []query{follow, raw, {"lines", "integer", "the last lines, at most 100000; 50 if not given"}, {"from", "integer", "the byte to continue from: the header Polis-Log-Position of an earlier answer, plus the bytes read of it"}}},
		"GET /v1/agents/{name}/why":           {out: api.Refusals{}},
		"GET /v1/agents/{name}/leftovers":     {out: api.Leftovers{}},
		"DELETE /v1/agents/{name}/leftovers":  {out: api.Leftovers{}},
		"GET /v1/agents/{name}/policy":        {out: api.Policy{}},
		"GET /v1/agents/{name}/tasks":         {out: api.Task{}, list: "tasks"},
		"GET /v1/tasks":                       {out: api.Task{}, list: "tasks", query: []query{ofWorkspace, {"limit", "integer", "at most so many, the newest; 100 if not given"}}},
		"GET /v1/tasks/{id}":                  {out: api.Task{}, query: []query{{"wait", "integer", "wait so many seconds, at most 300, until the result is final and the program has exited"}}},
		"GET /v1/tasks/{id}/output":           {text: "text/plain", query: []query{raw}},
		"GET /v1/tasks/{id}/diff":             {text: "text/x-diff", query: []query{{"stat", "boolean", "only how much"}, {"names", "boolean", "only which files"}}},
		"POST /v1/tasks/{id}/cancel":          {out: api.Task{}},
		"POST /v1/tasks/{id}/retry":           {out: api.Task{}},
		"GET /v1/agents/{name}/attach":        {out: api.Attach{}},

		"POST /v1/tasks/{id}/replay":   {in: api.ReplayRequest{}, out: api.Replay{}, made: true},
		"GET /v1/agents/{name}/replay": {out: api.Replay{}, query: []query{{"wait", "integer", "wait this many seconds until it has ended"}}},
		"GET /v1/races":                {out: api.Race{}, list: "races", query: []query{ofWorkspace}},
		"POST /v1/races":               {in: api.RaceRequest{}, out: api.Race{}, made: true},
		"GET /v1/races/{id}":           {out: api.Race{}, query: []query{{"wait", "integer", "wait this many seconds until it has ended or waits for a choice"}}},
		"POST /v1/races/{id}/choose":   {in: api.ChooseRequest{}, out: api.Race{}},
		"POST /v1/races/{id}/cancel":   {out: api.Race{}},

		"POST /v1/agents/{name}/snapshots": {in: api.SnapshotRequest{}, optional: true, out: api.Snapshot{}, made: true},
		"GET /v1/snapshots":                {out: api.Snapshot{}, list: "snapshots", query: []query{ofWorkspace, {"agent", "string", "only those of this agent"}}},
		"GET /v1/snapshots/{id}":           {out: api.Snapshot{}},
		"GET /v1/snapshots/{id}/files":     {out: api.SnapshotFile{}, list: "files"},
		"GET /v1/snapshots/{id}/content":   {text: "application/octet-stream", query: []query{{"path", "string", "the file"}}},
		"GET /v1/snapshots/{id}/diff":      {out: api.SnapshotDiff{}, query: []query{{"to", "string", "the later snapshot; the agent's files now if not given"}}},
		"GET /v1/snapshots/{id}/verify":    {out: api.SnapshotCheck{}, query: []query{{"worktree", "boolean", "also compare the files of the snapshot's agent as they are now"}, {"against", "string", "also compare the files of this agent of the workspace"}}},
		"POST /v1/snapshots/{id}/mount":    {in: api.SnapshotMountRequest{}, optional: true, out: api.SnapshotMount{}},
		"DELETE /v1/snapshots/{id}/mount":  {query: []query{{"inside", "boolean", "the mount in the sandbox of its agent"}}, out: api.SnapshotMount{}},
		"POST /v1/snapshots/{id}/restore":  {in: api.SnapshotRestoreRequest{}, optional: true, out: api.SnapshotRestored{}},
		"GET /v1/receipts": {out: api.Receipts{}, query: []query{ofWorkspace, {"agent", "string", "only those of this agent"}, {"type", "string", "only those of this type, or of types that begin so"},
			{"since", "string", "the earliest time, RFC 3339"}, {"limit", "integer", "how many, 1000 if not given"}}},
		"GET /v1/who": {out: api.Who{}, query: []query{ofWorkspace, {"op", "string", "\"read\" or \"wrote\""}, {"path", "string", "a file or directory below the worktree"}, {"line", "integer", "a line of the file; only with op=wrote"}, {"checkpoint", "string", "the line is that of the file in this checkpoint"},
			{"agent", "string", "only by this agent"}, {"since", "string", "the earliest time, as in RFC 3339"}, {"limit", "integer", "how many: the last ones"}}},
		"GET /v1/blame":                       {out: api.Blame{}, query: []query{ofWorkspace, {"agent", "string", "the file of this agent, else that of the target branch"}, {"path", "string", "the file"}}},
		"GET /v1/receipts/verify":             {out: api.ReceiptsCheck{}, query: []query{ofWorkspace, {"head", "string", "the hash of an entry that must be there"}}},
		"GET /v1/receipts/provenance":         {text: "application/x-ndjson", query: []query{ofWorkspace, {"entry", "integer", "only of the merge with this number in the log of the workspace"}}},
		"GET /v1/receipts/replay":             {out: api.ReceiptsReplay{}, query: []query{ofWorkspace, {"entry", "integer", "the number of an entry in the log of the workspace; the newest if not given"}}},
		"GET /v1/receipts/tree":               {text: "application/x-tar", query: []query{ofWorkspace, {"entry", "integer", "the number of an entry in the log of the workspace; the newest if not given"}, {"branch", "string", "the target, if several have merges"}}},
		"GET /v1/receipts/export":             {text: "application/x-ndjson", query: []query{ofWorkspace}},
		"DELETE /v1/snapshots/{id}":           {out: api.Snapshot{}},
		"GET /v1/agents/{name}/timeline":      {out: api.Snapshot{}, list: "checkpoints"},
		"GET /v1/agents/{name}/timeline/diff": {out: api.SnapshotDiff{}, query: []query{{"from", "string", "the earlier moment, as RewindRequest.to names it; the last checkpoint if not given"}, {"to", "string", "the later moment; now if not given"}}},
		"POST /v1/agents/{name}/checkpoints":  {in: api.CheckpointRequest{}, optional: true, out: api.Snapshot{}},
		"POST /v1/agents/{name}/own-timeline": {in: api.TimelineRequest{}, out: api.TimelineResponse{}},
		"POST /v1/agents/{name}/rewind":       {in: api.RewindRequest{}, optional: true, out: api.SnapshotRestored{}},

		"GET /v1/locks":     {out: api.Lock{}, list: "locks", query: []query{ofWorkspace}},
		"POST /v1/locks":    {in: api.LockRequest{}, out: api.Lock{}, made: true},
		"DELETE /v1/locks":  {in: api.LockRequest{}},
		"GET /v1/usage":     {out: api.ModelUse{}, list: "usage", query: []query{ofWorkspace, {"by", "string", "agent (the default), task, model or day"}, {"since", "string", "only use since this day in UTC, YYYY-MM-DD"}}},
		"GET /v1/conflicts": {out: api.Conflicts{}, list: "conflicts", query: []query{ofWorkspace}},

		"GET /v1/approvals":       {out: api.Approval{}, list: "approvals", query: []query{ofWorkspace}},
		"GET /v1/approvals/{id}":  {out: api.Approval{}},
		"POST /v1/approvals/{id}": {in: api.AnswerRequest{}, out: api.Approval{}},
		"GET /v1/roles":           {out: api.Role{}, list: "roles"},
		"GET /v1/roles/{name}":    {out: api.Role{}},
		"GET /v1/roles/{name}/check": {out: api.RoleDecision{}, query: []query{{"tool", "string", "the tool that is called"}, {"text", "string", "its path, command or address"},
			{"input", "string", "or its arguments, an object in JSON"}, {"path", "string", "or a path that a process uses"}, {"write", "boolean", "the path is changed"},
			{"agent", "string", "an agent of the role, with its own rules and answers"}, {"base_type", "string", "whose names of tools count"}, {"workspace", "string", "whose remembered answers count; all if not given"}}},
		"GET /v1/approval-rules":         {out: api.ApprovalRule{}, list: "rules", query: []query{ofWorkspace}},
		"DELETE /v1/approval-rules/{id}": {out: api.ApprovalRule{}},

		"GET /v1/policy/learn": {out: api.LearnedPolicy{}, query: append(usedBy("the name of the role; that of the agent without"), query{"workspace", "string", "the workspace of an agent that was removed"})},
		"GET /v1/policy/check": {out: api.PolicyCheck{}, query: append(usedBy("a role of the configuration"), query{"workspace", "string", "the workspace of an agent that was removed"})},
		"GET /v1/setups":       {out: api.Setup{}, list: "setups", query: []query{ofWorkspace}},
		"POST /v1/setups":      {in: api.SetupRequest{}, optional: true, out: api.Setup{}, steps: true},
		"GET /v1/setups/log":   {out: api.SetupLog{}, query: []query{ofWorkspace}},

		"GET /v1/maintenance":  {out: api.MaintenanceReport{}, list: "maintenance", query: []query{ofWorkspace}},
		"POST /v1/maintenance": {in: api.MaintenanceRequest{}, optional: true, out: api.MaintenanceReport{}, steps: true},

		"GET /v1/patrol":  {out: api.PatrolReport{}},
		"POST /v1/patrol": {in: api.PatrolRequest{}, optional: true, out: api.PatrolReport{}},

		"GET /v1/patrol/cases":               {out: api.Case{}, list: "cases", query: []query{ofWorkspace, {"all", "boolean", "the resolved ones too"}}},
		"GET /v1/patrol/cases/{id}":          {out: api.Case{}},
		"POST /v1/patrol/cases/{id}/resolve": {in: api.ResolveRequest{}, optional: true, out: api.Case{}},

		"GET /v1/ports":  {out: api.PortMapping{}, list: "ports"},
		"POST /v1/ports": {in: api.PortRequest{}, out: api.PortsAdded{}, made: true},
		"DELETE /v1/ports/{agent}/{internal}": {query: []query{{"protocol", "string", "tcp (the default) or udp"},
			{"last", "integer", "the last port of a range, which then goes as a whole"}}},
	}
}
