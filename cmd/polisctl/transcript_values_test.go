package main

import (
	"time"

	"polis/daemon/api"
)

// noon is the time of every transcript.
var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) time.Time { return noon.Add(-d) }

func ptr[T any](v T) *T { return &v }

// transcriptValues are the answers of polisd by their routes: long names and texts, wide characters, odd spaces.
func transcriptValues() map[string]any {
	const longPath = "services/payment-gateway/internal/settlement/reconciliation/ledger_entry_test.go"
	waiting := &api.Waiting{For: api.WaitingApproval, Since: before(72 * time.Second), ID: "claude-reviewer.k3f9q2ab", What: "tool Bash make deploy ENVIRONMENT=staging VERBOSE=1", Open: 3}
	agents := []api.Agent{
		{Name: "ann", BaseType: "codex", Workspace: "webshop", Status: api.StatusRunning, Branch: "agent/ann", MergeStatus: api.MergePending, MemoryBytes: 312 << 20, CreatedAt: before(26 * time.Hour),
			PortMappings: []api.PortMapping{{Agent: "ann", Internal: 3000, External: 3001, Protocol: "tcp"}, {Agent: "ann", Internal: 5173, External: 3002, Protocol: "tcp"}, {Agent: "ann", Internal: 9229, External: 3003, Protocol: "tcp"}},
			Task:         &api.TaskBrief{ID: "ann.4", State: api.TaskRunning, Outcome: api.OutcomeRunning, Result: "running", Queued: 2, Waits: &api.TaskWait{For: api.WaitTask, Agent: "ann", Task: "ann.4", Since: before(9 * time.Minute)}}},
		{Name: "gemini", BaseType: "gemini", Workspace: "webshop", Status: api.StatusRunning, Branch: "feature/ledger-reconciliation-of-foreign-currencies", MemoryBytes: 1 << 30, CreatedAt: before(3 * time.Hour),
			Waiting: &api.Waiting{For: api.WaitingLease, Since: before(40 * time.Second), Path: longPath, What: "a lock on " + longPath}},
		{Name: "claude-reviewer", BaseType: "claude", Workspace: "webshop", Status: api.StatusRunning, Branch: "agent/claude-reviewer", MemoryBytes: 700 << 20, CreatedAt: before(50 * time.Minute), Waiting: waiting,
			Task: &api.TaskBrief{ID: "claude-reviewer.1", State: api.TaskRunning, Outcome: api.OutcomeRunning, Result: "running"}},
		{Name: "old", BaseType: "custom", Workspace: "documentation", Status: api.StatusStopped, Branch: "agent/old", CreatedAt: before(60 * time.Hour),
			Task: &api.TaskBrief{ID: "old.7", State: api.TaskEnded, Outcome: api.OutcomeConflict, Result: "conflict: " + longPath + ", docs/index.md"}},
		{Name: "qwen", BaseType: "qwen", Workspace: "documentation", Status: api.StatusRunning, Branch: "agent/qwen", CreatedAt: before(5 * time.Minute),
			Waiting: &api.Waiting{For: api.WaitingThaw, Since: before(3 * time.Minute), What: "breaker deletions: 101 in 2 s, 100 are allowed in a minute"}},
	}
	tasks := []api.Task{
		{ID: "ann.3", Agent: "ann", Time: before(2 * time.Hour), Began: ptr(before(2 * time.Hour)), Ended: ptr(before(time.Hour)), State: api.TaskEnded, Outcome: api.OutcomeMerged, Result: "merged as 2a89de9",
			Prompt: "Corrige le calcul\u00a0: «\u202fTVA\u202f» des factures à l'étranger, puis ajoute un test\nensuite"},
		{ID: "claude-reviewer.1", Agent: "claude-reviewer", Time: before(50 * time.Minute), Began: ptr(before(50 * time.Minute)), State: api.TaskRunning, Outcome: api.OutcomeRunning, Result: "running",
			Prompt: "支払いサービスのテストを修正してください。すべてのエラーメッセージを日本語に翻訳し、ドキュメントも更新すること。"},
		{ID: "old.7", Agent: "old", Time: before(30 * time.Hour), Began: ptr(before(30 * time.Hour)), Ended: ptr(before(29 * time.Hour)), State: api.TaskEnded, Outcome: api.OutcomeConflict, Result: "conflict: " + longPath + ", docs/index.md",
			Prompt: "document every exported function of the package in one sentence"},
		{ID: "ann.5", Agent: "ann", Time: before(9 * time.Minute), State: api.TaskQueued, Outcome: api.OutcomeQueued, Result: "queued", Prompt: "next",
			Waits: &api.TaskWait{For: api.WaitTask, Agent: "ann", Task: "ann.4", Since: before(9 * time.Minute)}},
	}
	questions := []api.Approval{
		{ID: "claude-reviewer.k3f9q2ab", Since: before(72 * time.Second), Deadline: noon.Add(time.Hour), Agent: "claude-reviewer", Workspace: "webshop", Role: "reviewer", Kind: api.ApprovalTool, Tool: "Bash", Class: api.ToolShell,
			What: "make deploy ENVIRONMENT=staging VERBOSE=1 REGION=eu-central-1 && ./scripts/smoke-test --all", Callers: 1, PID: 4711, Program: "claude", Remember: "Bash(make deploy ENVIRONMENT=staging VERBOSE=1 REGION=eu-central-1 && ./scripts/smoke-test --all)"},
		{ID: "qwen.aaaaaaaa", Since: before(4 * time.Minute), Deadline: noon.Add(time.Hour), Agent: "qwen", Workspace: "documentation", Role: "writer", Kind: api.ApprovalWrite, What: longPath, Callers: 2},
	}
	return map[string]any{
		"/v1/agents":                       map[string]any{"agents": agents},
		"/v1/agents/ann":                   agents[0],
		"/v1/agents/ann/tasks":             map[string]any{"tasks": tasks[:1]},
		"/v1/tasks":                        map[string]any{"tasks": tasks},
		"/v1/approvals":                    map[string]any{"approvals": questions},
		"/v1/approvals/" + questions[0].ID: questions[0],
		"/v1/approval-rules": map[string]any{"rules": []api.ApprovalRule{
			{ID: "claude.cccccccc", Workspace: "webshop", Role: "reviewer", Verdict: api.VerdictApprove, Kind: api.ApprovalTool, Tool: "Bash", What: "x", Text: "Bash(go test ./services/payment-gateway/internal/settlement/... -count=1)", By: "user:0", At: before(3 * time.Hour)},
			{ID: "qwen.dddddddd", Workspace: "documentation", Agent: "qwen", Verdict: api.VerdictDeny, Kind: api.ApprovalWrite, What: "x", Text: "write " + longPath, By: "user:4294967294", At: before(3 * time.Hour)},
		}},
		"/v1/queue": map[string]any{"queues": []api.Queue{{Workspace: "webshop", Target: "main",
			Entries: []api.QueueEntry{
				{Agent: "claude-reviewer", State: api.QueueWaiting, Priority: 5, By: "user:0", AddedAt: before(8 * time.Minute), Tasks: []string{"claude-reviewer.1", "claude-reviewer.2", "claude-reviewer.3"}},
				{Agent: "ann", State: api.QueueWaiting, By: "task", AddedAt: before(4 * time.Minute), Tasks: []string{"ann.4"}}},
			Recent: []api.QueueOutcome{
				{Agent: "ann", Tasks: []string{"ann.3"}, At: before(time.Hour), MergeCommitSHA: "2a89de9000000000000000000000000000000000"},
				{Agent: "old", Tasks: []string{"old.7"}, At: before(29 * time.Hour), Code: api.CodeMergeConflict, Message: "agent/old conflicts with main in " + longPath + " and docs/index.md"}}}}},
		"/v1/patrol": api.PatrolReport{At: before(6 * time.Second), Millis: 3, Cases: api.CaseDigest{Open: 2},
			Agents: []api.PatrolAgent{
				{Agent: "ann", Status: api.StatusRunning, Task: "ann.4", QuietSeconds: 2, UnchangedSeconds: 100},
				{Agent: "claude-reviewer", Status: api.StatusRunning, Task: "claude-reviewer.1", QuietSeconds: 72, UnchangedSeconds: 900, Waits: "the answer to claude-reviewer.k3f9q2ab"},
				{Agent: "gemini", Status: api.StatusRunning, QuietSeconds: 40, UnchangedSeconds: 7300, Waits: "a lease on " + longPath}},
			Findings: []api.PatrolFinding{{Agent: "gemini", Class: api.PatrolStalled, Since: before(20 * time.Minute), Evidence: []string{"no output for 20m0s, and no open request to a model service in all of that time"}, Next: "polisctl agents watch gemini shows it, polisctl agents stop gemini ends it"}}},
		"/v1/patrol/cases": map[string]any{"cases": []api.Case{
			{ID: "case-3", State: api.CasePending, Kind: "breaker", Workspace: "documentation", Agent: "qwen", Opened: before(3 * time.Minute), Evidence: []string{"breaker deletions: 101 in 2 s, 100 are allowed in a minute", "processes: 4711 rm"}},
			{ID: "case-4", State: api.CaseZombieDetected, Kind: string(api.PatrolStalled), Workspace: "webshop", Agent: "gemini", Opened: before(20 * time.Minute), Evidence: []string{"no output for 20m0s"}},
			{ID: "case-12", State: api.CaseZombieDetected, Kind: string(api.PatrolAgentDead), Workspace: "webshop", Agent: "claude-reviewer", Opened: before(time.Hour), Evidence: []string{"its program has ended"}}}},
		"/v1/locks": map[string]any{"locks": []api.Lock{
			{Workspace: "webshop", Path: longPath, Holder: "claude-reviewer", LockType: "write", AcquiredAt: before(7 * time.Minute), Hold: "merge", Token: 1042, Waiting: []api.Waiter{{Holder: "gemini", Since: before(40 * time.Second)}, {Holder: "ann", Since: before(10 * time.Second)}}},
			{Workspace: "documentation", Path: "docs", Tree: true, Holder: "user:0", LockType: "read", AcquiredAt: before(time.Minute), ExpiresAt: ptr(noon.Add(time.Hour)), Token: 1043, Reason: "the release notes are being written, do not change the docs"}}},
		"/v1/ports": map[string]any{"ports": []api.PortMapping{
			{Agent: "ann", Internal: 3000, External: 3001, Protocol: "tcp", Bind: "127.0.0.1", Served: true, URL: "http://3000.ann.webshop.polis.localhost:8080/"},
			{Agent: "claude-reviewer", Internal: 53, External: 3005, Protocol: "udp", Bind: "127.0.0.1", Auto: true}}},
		"/v1/conflicts": map[string]any{"conflicts": []api.Conflicts{{Workspace: "webshop", Target: "main", PathsTotal: 40,
			Merges: []api.ConflictMerge{{Branches: []string{"agent/claude-reviewer", "agent/ann"}, Since: before(5 * time.Minute), Total: 4, Paths: []string{longPath, "docs/index.md", "go.mod"}}},
			Paths:  []api.ConflictPath{{Path: longPath, ChangedBy: []api.ConflictChange{{Agent: "ann"}, {Agent: "claude-reviewer", Uncommitted: true}}, LeasedBy: []string{"claude-reviewer"}, AwaitedBy: []string{"gemini"}}}}}},
		"/v1/snapshots": map[string]any{"snapshots": []api.Snapshot{
			{ID: "20300102T110000-1", Agent: "claude-reviewer", Time: before(time.Hour), Covers: "tracked", Files: 12345, Added: 3 << 20, Hash: "0123456789abcdef0123456789abcdef", Note: "before the large refactoring of the settlement package"}}},
		"/v1/top": api.Top{Time: noon, Host: api.TopHost{CPUs: 2, MemoryBytes: 8 << 30, AvailableBytes: 4 << 30}, Polisd: api.Process{MemoryBytes: 20 << 20},
			Agents: []api.TopAgent{{Name: "claude-reviewer", Status: api.StatusRunning, Use: api.Use{MemoryBytes: 700 << 20, Pids: 31, OpenFiles: 420}, MemoryLimitBytes: 2 << 30, PidsLimit: 512, Pressure: &api.Pressure{CPU: 12.4, IO: 3}, Waiting: waiting,
				LimitHits: []api.LimitHit{{Limit: "pids", Count: 3, Last: before(time.Second)}}, Models: &api.ModelUse{Requests: 12, InputTokens: 1_500_000, OutputTokens: 2500, Cost: map[string]float64{"EUR": 1.25}}}}},
		"/v1/workers": map[string]any{"workers": []api.Worker{{ID: "w-7", State: "running", Workspace: "webshop", Branch: "worker/translate-the-error-messages", Parent: "claude-reviewer", CreatedAt: before(8 * time.Minute), Waiting: waiting, Task: &api.Task{ID: "w-7.1", Result: "running"}}}},
		"/v1/races":   map[string]any{"races": []api.Race{{ID: "race-2", Workspace: "webshop", State: api.RaceEnded, CreatedAt: before(2 * time.Hour), Winner: "claude-reviewer", Racers: []api.Racer{{Agent: "ann"}, {Agent: "claude-reviewer"}, {Agent: "gemini"}}, Request: api.RaceRequest{Task: "make the settlement of foreign currencies twice as fast without more memory"}}}},
	}
}
