package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// socketDir is a directory whose name is short enough for sockets.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "polis")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// serve answers on a unix socket and returns a client of it.
func serve(t testing.TB, h http.Handler) *Client {
	t.Helper()
	path := filepath.Join(socketDir(t), "polisd.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	c := New(path)
	t.Cleanup(func() {
		c.Close()
		_ = srv.Close()
		<-done
	})
	return c
}

func reply(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// routesOfAPI are the routes of the API, with what their paths look like.
func routesOfAPI(t *testing.T) map[string]*regexp.Regexp {
	t.Helper()
	b, err := os.ReadFile("../../../docs/openapi.json")
	require.NoError(t, err)
	var doc struct {
		Paths map[string]map[string]struct {
			Access string `json:"x-access"`
		}
	}
	require.NoError(t, json.Unmarshal(b, &doc))
	out := map[string]*regexp.Regexp{}
	for path, methods := range doc.Paths {
		like := regexp.MustCompile("^" + regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(path, "[^/]+") + "$")
		for m, op := range methods {
			// What is for root alone is between polis's own programs.
			if op.Access != "root" {
				out[strings.ToUpper(m)+" "+path] = like
			}
		}
	}
	require.NotEmpty(t, out)
	return out
}

func TestEveryCallUsesItsRoute(t *testing.T) {
	ctx := t.Context()
	missing := routesOfAPI(t)
	lock := api.LockRequest{Path: "a", Agent: "claude"}
	for _, tc := range []struct {
		want string
		call func(*Client) error
	}{
		{"GET /v1/status ", func(c *Client) error { _, err := c.Status(ctx); return err }},
		{"GET /v1/doctor ", func(c *Client) error { _, err := c.Doctor(ctx); return err }},
		{"GET /v1/workspaces/w/checks ", func(c *Client) error { _, err := c.ProjectChecks(ctx, "w"); return err }},
		{"GET /v1/usage?by=day&since=2026-01-01&workspace=w ", func(c *Client) error { _, err := c.Usage(ctx, "w", "day", "2026-01-01"); return err }},
		{"GET /v1/conflicts?workspace=w ", func(c *Client) error { _, err := c.Conflicts(ctx, "w"); return err }},
		{"GET /v1/patrol ", func(c *Client) error { _, err := c.LastPatrol(ctx); return err }},
		{`POST /v1/patrol {"dry_run":true}`, func(c *Client) error { _, err := c.Patrol(ctx, api.PatrolRequest{DryRun: true}); return err }},
		{"POST /v1/agents/claude/thaw ", func(c *Client) error { _, err := c.Thaw(ctx, "claude"); return err }},
		{"GET /v1/patrol/cases?all=1&workspace=w ", func(c *Client) error { _, err := c.Cases(ctx, "w", true); return err }},
		{"GET /v1/patrol/cases/case-1 ", func(c *Client) error { _, err := c.Case(ctx, "case-1"); return err }},
		{`POST /v1/patrol/cases/case-1/resolve {"note":"x"}`, func(c *Client) error {
			_, err := c.ResolveCase(ctx, "case-1", api.ResolveRequest{Note: "x"})
			return err
		}},
		{"GET /v1/setups?workspace=w ", func(c *Client) error { _, err := c.Setups(ctx, "w"); return err }},
		{`POST /v1/setups {"again":true}`, func(c *Client) error { _, err := c.RunSetup(ctx, api.SetupRequest{Again: true}, nil); return err }},
		{"GET /v1/queue/a/log?check=2&lines=9&workspace=w ", func(c *Client) error {
			_, err := c.CheckLog(ctx, api.CheckLogRequest{Agent: "a", Workspace: "w", Check: 2, Lines: 9})
			return err
		}},
		{"GET /v1/queue/a/log/output?id=a.7 ", func(c *Client) error {
			body, err := c.CheckOutput(ctx, api.CheckLogRequest{Agent: "a", ID: "a.7"})
			if err == nil {
				err = body.Close()
			}
			return err
		}},
		{"GET /v1/setups/log?workspace=w ", func(c *Client) error { _, err := c.SetupLog(ctx, "w"); return err }},
		{"GET /v1/maintenance?workspace=w ", func(c *Client) error { _, err := c.Maintenance(ctx, "w"); return err }},
		{`POST /v1/maintenance {}`, func(c *Client) error { _, err := c.Maintain(ctx, api.MaintenanceRequest{}, nil); return err }},
		{`GET /v1/top `, func(c *Client) error { _, err := c.Top(ctx); return err }},
		{`PATCH /v1/agents/claude {"memory_limit_mb":64}`, func(c *Client) error { _, err := c.Set(ctx, "claude", api.SetRequest{MemoryMB: 64}); return err }},
		{`POST /v1/agents/claude/send {"text":"x"}`, func(c *Client) error { _, err := c.Send(ctx, "claude", api.SendRequest{Text: "x"}); return err }},
		{`POST /v1/agents/claude/say {"text":"x"}`, func(c *Client) error { _, err := c.Say(ctx, "claude", api.SayRequest{Text: "x"}); return err }},
		{`POST /v1/broadcast {"text":"x"}`, func(c *Client) error { _, err := c.Broadcast(ctx, api.BroadcastRequest{Text: "x"}); return err }},
		{"GET /v1/openapi.json ", func(c *Client) error { _, err := c.OpenAPI(ctx); return err }},
		{"GET /v1/health ", func(c *Client) error { return c.Health(ctx) }},
		{"GET /v1/workspaces ", func(c *Client) error { _, err := c.Workspaces(ctx); return err }},
		{`POST /v1/workspaces/w%2Fx/move {"path":"/p"}`, func(c *Client) error {
			_, err := c.MoveWorkspace(ctx, "w/x", api.MoveRequest{Path: "/p"})
			return err
		}},
		{"DELETE /v1/workspaces/w%2Fx?force=1&ignored=1 ", func(c *Client) error {
			_, err := c.Down(ctx, "w/x", api.DownRequest{Force: true, Ignored: true})
			return err
		}},
		{`POST /v1/workspaces {"repo":"/r"}`, func(c *Client) error { _, err := c.Up(ctx, api.UpRequest{Repo: "/r"}, nil); return err }},
		{"GET /v1/agents ", func(c *Client) error { _, err := c.Agents(ctx, ""); return err }},
		{"GET /v1/agents?workspace=a%26b ", func(c *Client) error { _, err := c.Agents(ctx, "a&b"); return err }},
		{`POST /v1/agents {"name":"x","base_type":"y"}`, func(c *Client) error {
			_, err := c.Add(ctx, api.AddRequest{Name: "x", BaseType: "y"}, nil)
			return err
		}},
		{"GET /v1/agents/claude ", func(c *Client) error { _, err := c.Agent(ctx, "claude"); return err }},
		{"GET /v1/agents/..%2Fx ", func(c *Client) error { _, err := c.Agent(ctx, "../x"); return err }},
		{"DELETE /v1/agents/claude ", func(c *Client) error { _, err := c.Remove(ctx, "claude", false, false); return err }},
		{"DELETE /v1/agents/claude?force=1 ", func(c *Client) error { _, err := c.Remove(ctx, "claude", true, false); return err }},
		{"DELETE /v1/agents/claude?ignored=1 ", func(c *Client) error { _, err := c.Remove(ctx, "claude", false, true); return err }},
		{"POST /v1/agents/claude/discard?ignored=1 ", func(c *Client) error { _, err := c.Discard(ctx, "claude", true); return err }},
		{"GET /v1/queue?workspace=w ", func(c *Client) error { _, err := c.Queues(ctx, "w"); return err }},
		{`POST /v1/queue {"agent":"claude","priority":3}`, func(c *Client) error {
			_, err := c.Enqueue(ctx, api.QueueRequest{Agent: "claude", Priority: 3})
			return err
		}},
		{`POST /v1/queue/claude {"priority":-1}`, func(c *Client) error { return c.Prioritize(ctx, "claude", -1) }},
		{`POST /v1/queue/claude/rework {"same":true}`, func(c *Client) error { _, err := c.Rework(ctx, "claude", api.ReworkRequest{Same: true}); return err }},
		{"DELETE /v1/queue/claude ", func(c *Client) error { return c.Dequeue(ctx, "claude") }},
		{`POST /v1/agents/claude/revert {"dry_run":true}`, func(c *Client) error {
			_, err := c.Revert(ctx, "claude", api.RevertRequest{DryRun: true})
			return err
		}},
		{`POST /v1/agents/claude/fork {"name":"other"}`, func(c *Client) error {
			_, err := c.Fork(ctx, "claude", api.ForkRequest{Name: "other"})
			return err
		}},
		{`POST /v1/agents/claude/snapshots {"covers":"all"}`, func(c *Client) error {
			_, err := c.CreateSnapshot(ctx, "claude", api.SnapshotRequest{Covers: api.SnapshotAll})
			return err
		}},
		{"GET /v1/agents/claude/timeline/diff?from=5m&to=s2 ", func(c *Client) error { _, err := c.DiffTimeline(ctx, "claude", "5m", "s2"); return err }},
		{"GET /v1/agents/claude/timeline ", func(c *Client) error { _, err := c.Timeline(ctx, "claude"); return err }},
		{`POST /v1/agents/claude/checkpoints {"note":"n"}`, func(c *Client) error {
			_, err := c.Checkpoint(ctx, "claude", api.CheckpointRequest{Note: "n"})
			return err
		}},
		{`POST /v1/agents/claude/rewind {"to":"5m"}`, func(c *Client) error {
			_, err := c.Rewind(ctx, "claude", api.RewindRequest{To: "5m"})
			return err
		}},
		{"GET /v1/snapshots?agent=claude&workspace=w ", func(c *Client) error { _, err := c.Snapshots(ctx, "w", "claude"); return err }},
		{"GET /v1/snapshots/s1 ", func(c *Client) error { _, err := c.Snapshot(ctx, "s1"); return err }},
		{"GET /v1/snapshots/s1/files ", func(c *Client) error { _, err := c.SnapshotFiles(ctx, "s1"); return err }},
		{"GET /v1/snapshots/s1/content?path=a%2Fb ", func(c *Client) error { _, err := c.SnapshotContent(ctx, "s1", "a/b"); return err }},
		{"GET /v1/snapshots/s1/diff?to=s2 ", func(c *Client) error { _, err := c.DiffSnapshot(ctx, "s1", "s2"); return err }},
		{"GET /v1/snapshots/s1/verify ", func(c *Client) error { _, err := c.VerifySnapshot(ctx, "s1"); return err }},
		{"GET /v1/snapshots/s1/verify?worktree=true ", func(c *Client) error { _, err := c.CompareSnapshot(ctx, "s1", ""); return err }},
		{"GET /v1/snapshots/s1/verify?against=claude ", func(c *Client) error { _, err := c.CompareSnapshot(ctx, "s1", "claude"); return err }},
		{`POST /v1/snapshots/s1/mount {"at":"/mnt"}`, func(c *Client) error {
			_, err := c.MountSnapshot(ctx, "s1", api.SnapshotMountRequest{At: "/mnt"})
			return err
		}},
		{"DELETE /v1/snapshots/s1/mount ", func(c *Client) error { _, err := c.UnmountSnapshot(ctx, "s1", false); return err }},
		{"DELETE /v1/snapshots/s1/mount?inside=true ", func(c *Client) error { _, err := c.UnmountSnapshot(ctx, "s1", true); return err }},
		{`POST /v1/snapshots/s1/restore {"paths":["a"]}`, func(c *Client) error {
			_, err := c.RestoreSnapshot(ctx, "s1", api.SnapshotRestoreRequest{Paths: []string{"a"}})
			return err
		}},
		{"GET /v1/receipts?agent=claude&limit=7&since=2026-01-02T03%3A04%3A05Z&type=agent%3A&workspace=project ", func(c *Client) error {
			_, err := c.Receipts(ctx, api.ReceiptsRequest{Workspace: "project", Agent: "claude", Type: "agent:", Limit: 7, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
			return err
		}},
		{"GET /v1/receipts/verify?head=ab&workspace=project ", func(c *Client) error { _, err := c.VerifyReceipts(ctx, "project", "ab"); return err }},
		{"GET /v1/receipts/provenance?entry=7&workspace=project ", func(c *Client) error { _, err := c.Provenance(ctx, "project", 7); return err }},
		{"GET /v1/receipts/replay?entry=7&workspace=project ", func(c *Client) error { _, err := c.ReplayReceipts(ctx, "project", 7); return err }},
		{"GET /v1/receipts/tree?branch=main&entry=7&workspace=project ", func(c *Client) error {
			r, err := c.ReplayTree(ctx, "project", 7, "main")
			if err == nil {
				err = r.Close()
			}
			return err
		}},
		{"GET /v1/receipts/export?workspace=project ", func(c *Client) error { _, err := c.ExportReceipts(ctx, "project"); return err }},
		{"DELETE /v1/snapshots/s1 ", func(c *Client) error { _, err := c.RemoveSnapshot(ctx, "s1"); return err }},
		{`POST /v1/agents/claude/restore {"as":"other"}`, func(c *Client) error {
			_, err := c.Restore(ctx, "claude", api.RestoreRequest{As: "other"})
			return err
		}},
		{"POST /v1/agents/claude/rebase ", func(c *Client) error { _, err := c.Rebase(ctx, "claude"); return err }},
		{`POST /v1/gc {"before_seconds":60,"dry_run":true}`, func(c *Client) error {
			_, err := c.GC(ctx, api.GCRequest{BeforeSeconds: 60, DryRun: true})
			return err
		}},
		{"POST /v1/agents/claude/start?force=1 ", func(c *Client) error { _, err := c.ForceStart(ctx, "claude"); return err }},
		{"POST /v1/agents/claude/start?force=1&idle=1 ", func(c *Client) error { _, err := c.ForceBringUp(ctx, "claude"); return err }},
		{"POST /v1/agents/claude/start?idle=1 ", func(c *Client) error { _, err := c.BringUp(ctx, "claude"); return err }},
		{"POST /v1/agents/claude/start ", func(c *Client) error { _, err := c.Start(ctx, "claude"); return err }},
		{"POST /v1/agents/claude/stop ", func(c *Client) error { _, err := c.Stop(ctx, "claude"); return err }},
		{`POST /v1/agents/claude/run {"prompt":"p"}`, func(c *Client) error { _, err := c.Run(ctx, "claude", api.RunRequest{Prompt: "p"}); return err }},
		{`POST /v1/agents/claude/merge {"dry_run":true}`, func(c *Client) error {
			_, err := c.Merge(ctx, "claude", api.MergeRequest{DryRun: true})
			return err
		}},
		{`POST /v1/agents/claude/pull-request {"draft":true}`, func(c *Client) error {
			_, err := c.Pull(ctx, "claude", api.PullRequest{Draft: true})
			return err
		}},
		{"POST /v1/agents/claude/discard ", func(c *Client) error { _, err := c.Discard(ctx, "claude", false); return err }},
		{"GET /v1/agents/claude/logs?follow=1&lines=5 ", func(c *Client) error { _, err := c.Logs(ctx, "claude", 5, true); return err }},
		{"GET /v1/agents/claude/logs?follow=1&from=9&lines=0 ", func(c *Client) error {
			_, err := c.LogStream(ctx, "claude", LogQuery{Follow: true, From: 9})
			return err
		}},
		{"GET /v1/agents/claude/diff?committed=1&stat=1 ", func(c *Client) error {
			_, err := c.Diff(ctx, "claude", api.DiffRequest{Stat: true, Committed: true})
			return err
		}},
		{"GET /v1/agents/claude/why ", func(c *Client) error { _, err := c.Why(ctx, "claude"); return err }},
		{"GET /v1/agents/claude/policy ", func(c *Client) error { _, err := c.Policy(ctx, "claude"); return err }},
		{`POST /v1/agents/claude/commit {"message":"m"}`, func(c *Client) error {
			_, err := c.Commit(ctx, "claude", api.CommitRequest{Message: "m"})
			return err
		}},
		{"GET /v1/agents/claude/leftovers ", func(c *Client) error { _, err := c.Leftovers(ctx, "claude"); return err }},
		{"DELETE /v1/agents/claude/leftovers ", func(c *Client) error { _, err := c.EndLeftovers(ctx, "claude"); return err }},
		{"GET /v1/tasks?limit=5&workspace=w ", func(c *Client) error { _, err := c.AllTasks(ctx, "w", 5); return err }},
		{"GET /v1/tasks/claude.1?wait=2 ", func(c *Client) error { _, err := c.Task(ctx, "claude.1", 2*time.Second); return err }},
		{"GET /v1/tasks/claude.1/output ", func(c *Client) error { _, err := c.TaskOutput(ctx, "claude.1"); return err }},
		{"GET /v1/tasks/claude.1/output?raw=1 ", func(c *Client) error { _, err := c.TaskRaw(ctx, "claude.1"); return err }},
		{"GET /v1/tasks/claude.1/diff?stat=1 ", func(c *Client) error { _, err := c.TaskDiff(ctx, "claude.1", true); return err }},
		{"POST /v1/tasks/claude.1/cancel ", func(c *Client) error { _, err := c.CancelTask(ctx, "claude.1"); return err }},
		{"POST /v1/tasks/claude.1/retry ", func(c *Client) error { _, err := c.RetryTask(ctx, "claude.1"); return err }},
		{"GET /v1/agents/claude/tasks ", func(c *Client) error { _, err := c.Tasks(ctx, "claude"); return err }},
		{"GET /v1/agents/claude/attach ", func(c *Client) error { _, err := c.Where(ctx, "claude"); return err }},
		{"GET /v1/locks ", func(c *Client) error { _, err := c.Locks(ctx); return err }},
		{"GET /v1/locks?workspace=w ", func(c *Client) error { _, err := c.LocksOf(ctx, "w"); return err }},
		{`POST /v1/locks {"path":"a","agent":"claude"}`, func(c *Client) error { _, err := c.Lock(ctx, lock); return err }},
		{`DELETE /v1/locks {"path":"a","agent":"claude"}`, func(c *Client) error { return c.Unlock(ctx, lock) }},
		{"GET /v1/ports ", func(c *Client) error { _, err := c.Ports(ctx); return err }},
		{`POST /v1/ports {"agent":"claude","internal":80}`, func(c *Client) error {
			_, err := c.AddPort(ctx, api.PortRequest{Agent: "claude", Internal: 80})
			return err
		}},
		{"DELETE /v1/ports/claude/80 ", func(c *Client) error { return c.RemovePort(ctx, "claude", "tcp", 80, 80) }},
		{"DELETE /v1/ports/claude/80?last=82&protocol=udp ", func(c *Client) error { return c.RemovePort(ctx, "claude", "udp", 80, 82) }},
		{"GET /v1/approvals?workspace=w ", func(c *Client) error { _, err := c.Approvals(ctx, "w"); return err }},
		{"GET /v1/approvals/claude.x ", func(c *Client) error { _, err := c.Approval(ctx, "claude.x"); return err }},
		{`POST /v1/approvals/claude.x {"verdict":"deny","reason":"r"}`, func(c *Client) error {
			_, err := c.Answer(ctx, "claude.x", api.AnswerRequest{Verdict: api.VerdictDeny, Reason: "r"})
			return err
		}},
		{"GET /v1/approval-rules ", func(c *Client) error { _, err := c.ApprovalRules(ctx, ""); return err }},
		{"DELETE /v1/approval-rules/claude.x ", func(c *Client) error { _, err := c.RevokeApproval(ctx, "claude.x"); return err }},
		{"GET /v1/roles ", func(c *Client) error { _, err := c.Roles(ctx); return err }},
		{"GET /v1/roles/worker ", func(c *Client) error { _, err := c.Role(ctx, "worker"); return err }},
		{"GET /v1/roles/worker/check?agent=claude&input=%7B%22a%22%3A1%7D&tool=Bash&write=1 ", func(c *Client) error {
			_, err := c.CheckRole(ctx, api.RoleCheck{Role: "worker", Tool: "Bash", Agent: "claude", Write: true, Input: map[string]any{"a": 1}})
			return err
		}},
		{"GET /v1/policy/learn?agent=claude&role=docs&run=-1 ", func(c *Client) error {
			_, err := c.LearnPolicy(ctx, api.PolicyRequest{Agent: "claude", Role: "docs", Run: -1})
			return err
		}},
		{"GET /v1/policy/check?agent=claude&role=docs&workspace=w ", func(c *Client) error {
			_, err := c.CheckPolicy(ctx, api.PolicyRequest{Agent: "claude", Role: "docs", Workspace: "w"})
			return err
		}},
		{"GET /v1/who?agent=claude&limit=5&line=12&op=wrote&path=a+b.go ", func(c *Client) error {
			_, err := c.Who(ctx, api.WhoRequest{Path: "a b.go", Agent: "claude", Write: true, Line: 12, Limit: 5})
			return err
		}},
		{"GET /v1/blame?path=a.go&workspace=w ", func(c *Client) error { _, err := c.Blame(ctx, "w", "", "a.go"); return err }},
		{`POST /v1/workers {"branch":"","task":""}`, func(c *Client) error { _, err := c.Delegate(ctx, api.DelegateRequest{}); return err }},
		{"GET /v1/workers ", func(c *Client) error { _, err := c.Workers(ctx, ""); return err }},
		{"GET /v1/workers/x ", func(c *Client) error { _, err := c.Worker(ctx, "x", 0); return err }},
		{"POST /v1/workers/x/cancel ", func(c *Client) error { _, err := c.CancelWorker(ctx, "x"); return err }},
		{"POST /v1/workers/cleanup {}", func(c *Client) error { _, err := c.CleanupWorkers(ctx, api.CleanupRequest{}); return err }},
		{`POST /v1/tasks/claude.1/replay {"by_order":true}`, func(c *Client) error {
			_, err := c.Replay(ctx, "claude.1", api.ReplayRequest{ByOrder: true})
			return err
		}},
		{"GET /v1/agents/x/replay?wait=2 ", func(c *Client) error { _, err := c.Replayed(ctx, "x", 2*time.Second); return err }},
		{`GET /v1/races?workspace=w `, func(c *Client) error { _, err := c.Races(ctx, "w"); return err }},
		{"GET /v1/races/r-1?wait=2 ", func(c *Client) error { _, err := c.GetRace(ctx, "r-1", 2*time.Second); return err }},
		{"POST /v1/races/r-1/cancel ", func(c *Client) error { _, err := c.CancelRace(ctx, "r-1"); return err }},
		{`POST /v1/races/r-1/choose {"agent":"claude"}`, func(c *Client) error { _, err := c.ChooseRace(ctx, "r-1", "claude"); return err }},
		{`POST /v1/races {"task":"t","agents":["pi"]}`, func(c *Client) error {
			_, err := c.Race(ctx, api.RaceRequest{Task: "t", Agents: []string{"pi"}})
			return err
		}},
		{"GET /v1/types ", func(c *Client) error { _, err := c.Types(ctx); return err }},
		{"GET /v1/metrics ", func(c *Client) error { _, err := c.Metrics(ctx); return err }},
		{"GET /v1/events?since=7 ", func(c *Client) error {
			return c.Events(ctx, EventQuery{Since: 7}, func(api.Event) error { return nil })
		}},
	} {
		t.Run(tc.want, func(t *testing.T) {
			var got string
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body)
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, "{}")
			}))
			require.NoError(t, tc.call(c))
			require.Equal(t, tc.want, got)
			method, uri, _ := strings.Cut(got, " ")
			path, _, _ := strings.Cut(strings.Fields(uri)[0], "?")
			for route, like := range missing {
				if strings.HasPrefix(route, method+" ") && like.MatchString(path) {
					delete(missing, route)
				}
			}
		})
	}
	require.Empty(t, slices.Sorted(maps.Keys(missing)), "routes without a method of Client that is called above")
}

func TestRefusalsKeepCodeHintAndDetails(t *testing.T) {
	c := serve(t, reply(409, "application/json", `{"code":"FILE_LOCKED","message":"a is locked","hint":"wait","details":{"holder":"claude"}}`))
	_, err := c.Lock(t.Context(), api.LockRequest{Path: "a"})
	var e *api.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, api.Error{Code: "FILE_LOCKED", Message: "a is locked", Hint: "wait", Details: map[string]any{"holder": "claude"}}, *e)
}

func TestAnswersThatAreNotPolisd(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"error without body":   reply(500, "text/plain", ""),
		"error of a proxy":     reply(502, "text/html", "<html>no</html>"),
		"error without fields": reply(400, "application/json", `{}`),
		"success that is html": reply(200, "text/html", "<html>hello</html>"),
		"success of a list":    reply(200, "application/json", `[1,2]`),
		"redirect":             reply(302, "text/plain", "elsewhere"),
		"cut short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"agents":`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := serve(t, h).Agents(t.Context(), "")
			require.Error(t, err)
			var e *api.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, []api.Code{api.CodeInternal, api.CodeUnavailable}, e.Code)
			require.NotEmpty(t, e.Message)
		})
	}
}

func TestSocketsThatCannotBeUsed(t *testing.T) {
	dir := socketDir(t)
	refused := filepath.Join(dir, "refused")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: refused}))
	require.NoError(t, unix.Close(fd))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for _, tc := range []struct {
		name, path string
		code       api.Code
		hint       string
		is         error
	}{
		{"missing", filepath.Join(dir, "none"), api.CodeUnavailable, "start polisd", os.ErrNotExist},
		{"refused", refused, api.CodeUnavailable, "start polisd", unix.ECONNREFUSED},
		{"too long", "/" + strings.Repeat("x", 108), api.CodeBadRequest, "shorter", nil},
		{"not a directory", filepath.Join(dir, "file", "x"), api.CodeUnavailable, "start polisd", unix.ENOTDIR},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := New(tc.path).Status(t.Context())
			e := api.AsError(err)
			require.Equal(t, tc.code, e.Code, e.Message)
			require.Contains(t, e.Hint, tc.hint)
			if tc.is != nil {
				require.ErrorIs(t, err, tc.is)
			}
		})
	}
}

func TestNoPermissionNamesTheGroup(t *testing.T) {
	// Root may open every socket, so the error is made by hand.
	c := New("/run/polis/polisd.sock")
	err := c.transportError(t.Context(), &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", unix.EACCES)})
	require.Equal(t, api.CodeForbidden, err.Code)
	require.Contains(t, err.Hint, "group polis")
	require.ErrorIs(t, err, os.ErrPermission)
}

func TestContextsEndCalls(t *testing.T) {
	entered := make(chan struct{}, 8)
	c := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Status(ctx)
	require.Equal(t, api.CodeTimeout, api.CodeOf(err))
	require.ErrorIs(t, err, context.DeadlineExceeded)

	<-entered
	why := errors.New("user went away")
	ctx2, cancel2 := context.WithCancelCause(t.Context())
	go func() {
		<-entered
		cancel2(why)
	}()
	_, err = c.Status(ctx2)
	require.ErrorIs(t, err, why, "the cause distinguishes a signal from a time-out")
}

func TestProgressArrivesInOrder(t *testing.T) {
	for _, tc := range []struct {
		name, contentType, body string
		status                  int
		steps                   []string
		code                    api.Code
	}{
		{name: "lines", contentType: mimeLines, status: 200, body: "{\"progress\":\"a\"}\n\n{\"progress\":\"b\"}\n{\"result\":{\"name\":\"x\"}}\n", steps: []string{"a", "b"}},
		{name: "last line without end", contentType: mimeLines, status: 200, body: `{"result":{"name":"x"}}`},
		{name: "with charset", contentType: mimeLines + "; charset=utf-8", status: 200, body: `{"result":{"name":"x"}}`},
		{name: "one piece", contentType: "application/json", status: 201, body: `{"name":"x"}`},
		{name: "unknown kinds of lines", contentType: mimeLines, status: 200, body: "{\"percent\":5}\n{\"result\":{\"name\":\"x\"}}\n"},
		{name: "failed late", contentType: mimeLines, status: 200, body: "{\"progress\":\"a\"}\n{\"error\":{\"code\":\"CGROUP_FAILED\",\"message\":\"m\"}}\n", steps: []string{"a"}, code: api.CodeCgroupFailed},
		{name: "failed early", contentType: "application/json", status: 409, body: `{"code":"AGENT_EXISTS","message":"m"}`, code: api.CodeAgentExists},
		{name: "cut short", contentType: mimeLines, status: 200, body: "{\"progress\":\"a\"}\n", steps: []string{"a"}, code: api.CodeUnavailable},
		{name: "nothing", contentType: mimeLines, status: 200, code: api.CodeUnavailable},
		{name: "not JSON", contentType: mimeLines, status: 200, body: "hello\n", code: api.CodeInternal},
		{name: "result of another kind", contentType: mimeLines, status: 200, body: "{\"result\":[1]}\n", code: api.CodeInternal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := serve(t, reply(tc.status, tc.contentType, tc.body))
			var steps []string
			agent, err := c.Add(t.Context(), api.AddRequest{Name: "x"}, func(s string) { steps = append(steps, s) })
			require.Equal(t, tc.steps, steps)
			if tc.code != "" {
				require.Equal(t, tc.code, api.CodeOf(err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, "x", agent.Name)
		})
	}
}

func TestEventsAreParsedAsServerSent(t *testing.T) {
	body := ": comment\r\nretry: 5\n\nid: 1\nevent: x\ndata: {\"id\":1,\ndata: \"type\":\"a\"}\n\ndata:{\"id\":2}\n\n\n\nid: 9\n\ndata: {\"id\":3}"
	var ids []uint64
	require.NoError(t, readEvents(strings.NewReader(body), func(e api.Event) error {
		ids = append(ids, e.ID)
		return nil
	}))
	require.Equal(t, []uint64{1, 2}, ids, "an event that was cut short is none")
}

func TestEventsStopWithTheirConsumer(t *testing.T) {
	c := serve(t, reply(200, "text/event-stream", "data: {\"id\":1}\n\ndata: {\"id\":2}\n\n"))
	stop := errors.New("enough")
	n := 0
	err := c.Events(t.Context(), EventQuery{}, func(api.Event) error { n++; return stop })
	require.Same(t, stop, err)
	require.Equal(t, 1, n)
	err = c.Events(t.Context(), EventQuery{Follow: true}, func(api.Event) error { return nil })
	require.Equal(t, api.CodeUnavailable, api.CodeOf(err), "a stream that is followed never just ends")
}

func TestEventsInOnePiece(t *testing.T) {
	c := serve(t, reply(200, "application/json", `{"events":[{"id":1},{"id":2}]}`))
	var ids []uint64
	require.NoError(t, c.Events(t.Context(), EventQuery{}, func(e api.Event) error {
		ids = append(ids, e.ID)
		return nil
	}))
	require.Equal(t, []uint64{1, 2}, ids)
}

func TestEventsResumeFromTheLast(t *testing.T) {
	var header, query string
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mimeEvents)
		header, query = r.Header.Get("Last-Event-ID"), r.URL.Query().Get("since")
	}))
	require.NoError(t, c.Events(t.Context(), EventQuery{Since: 41}, func(api.Event) error { return nil }))
	require.Equal(t, "41", header)
	require.Equal(t, "41", query)
}

func TestLogsAreStreamedAndEndWithTheContext(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	body, err := c.Logs(ctx, "claude", 1, true)
	require.NoError(t, err)
	defer body.Close()
	buf := make([]byte, 16)
	n, err := body.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "first\n", string(buf[:n]))
	cancel()
	_, err = body.Read(buf)
	require.ErrorIs(t, err, context.Canceled)
}

func FuzzErrorBody(f *testing.F) {
	f.Add([]byte(`{"code":"X","message":"m"}`))
	f.Add([]byte(`{"details":{"a":[1]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := parseError(body)
		if err != nil {
			return
		}
		require.NotEmpty(t, e.Code)
		require.NotEmpty(t, e.Message)
		_, err = json.Marshal(e)
		require.NoError(t, err)
	})
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: {\"id\":1}\n\n"))
	f.Add([]byte(":\ndata\ndata:\n\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var all, again bytes.Buffer
		write := func(to *bytes.Buffer) func(api.Event) error {
			return func(e api.Event) error {
				b, err := json.Marshal(e)
				require.NoError(t, err)
				fmt.Fprintf(to, "id: 1\ndata: %s\n\n", b)
				return nil
			}
		}
		_ = readEvents(bytes.NewReader(body), write(&all))
		require.NoError(t, readEvents(bytes.NewReader(all.Bytes()), write(&again)))
		require.Equal(t, all.String(), again.String())
	})
}

func FuzzProgress(f *testing.F) {
	f.Add([]byte("{\"progress\":\"a\"}\n{\"result\":1}\n"))
	f.Add([]byte("{\"error\":{}}\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		result, err := readProgress(strings.NewReader(string(body)), func(string) {})
		require.True(t, (err == nil) == (result != nil))
	})
}

func TestTheHintStartsPolisdWhereItIs(t *testing.T) {
	run := t.TempDir()
	require.Contains(t, startHint(run), "polisd --config ")
	require.NoError(t, os.MkdirAll(filepath.Join(run, "systemd", "system"), 0o755))
	require.Equal(t, "systemctl start polisd", startHint(run))
	require.NoError(t, os.MkdirAll(filepath.Join(run, "polis"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(run, "polis", "api.sock"), nil, 0o600))
	require.Contains(t, startHint(run), "administrator")
}
