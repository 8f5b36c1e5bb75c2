package provenance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/history/receipt"
)

// logs are receipts in memory.
type logs struct {
	entries map[string][]receipt.Receipt
	broken  *api.BrokenReceipt
}

func (l *logs) Each(_ context.Context, want func(string) bool, visit receipt.Visit) (*api.BrokenReceipt, error) {
	for log, all := range l.entries {
		if !want(log) {
			continue
		}
		for i := range all {
			if err := visit(log, &all[i]); err != nil {
				return nil, err
			}
		}
		if l.broken != nil && l.broken.Log == log {
			return l.broken, nil
		}
	}
	return nil, nil
}

func (l *logs) add(t *testing.T, log, agent, typ string, at int, data any) {
	raw, err := json.Marshal(data)
	require.NoError(t, err)
	n := uint64(len(l.entries[log]) + 1)
	l.entries[log] = append(l.entries[log], receipt.Receipt{Hash: strings.Repeat("c", 63) + string('0'+rune(n%10)),
		Entry: receipt.Entry{Seq: n, Type: typ, Agent: agent, Time: time.Unix(int64(1_700_000_000+at), 0), Data: raw}})
}

const (
	target = "1111111111111111111111111111111111111111"
	head   = "2222222222222222222222222222222222222222"
	made   = "3333333333333333333333333333333333333333"
	blob   = "4444444444444444444444444444444444444444"
)

type commits struct{ err error }

func (c commits) Parents(context.Context, string) ([]string, error) {
	return []string{target, head}, c.err
}
func (c commits) Changes(context.Context, string, string) ([]git.Change, error) {
	return []git.Change{{Status: 'A', Path: "new <file>", ID: blob}, {Status: 'D', Path: "old/file", ID: strings.Repeat("0", 40)}, {Status: 'M', Path: "bad\xff", ID: blob}}, nil
}

// recorded are the receipts of an agent that worked twice, the second time with everything recorded.
func recorded(t *testing.T) *logs {
	l := &logs{entries: map[string][]receipt.Receipt{}}
	at := func(n int) time.Time { return time.Unix(int64(1_700_000_000+n), 0) }
	l.add(t, "", "ana", api.EventAgentCreated, 0, map[string]any{"base_type": "claude", "role": "docs", "policy": map[string]any{"read": []string{"**"}}})
	l.add(t, "", "ana", api.EventTask, 1, map[string]any{"id": "ana.1", "prompt": "first"})
	l.add(t, "", "ana", api.EventAgentMerged, 2, map[string]any{"merge_commit_sha": made, "target": "main", "branch": "agent/ana", "tasks": []string{"ana.1"}})
	l.add(t, "", "ana", api.EventTask, 3, map[string]any{"id": "ana.2", "prompt": "second"})
	l.add(t, "", "bob", api.EventTask, 3, map[string]any{"id": "bob.1", "prompt": "other"})
	l.add(t, "", "ana", api.EventAgentMerged, 9, map[string]any{"merge_commit_sha": made, "target": "main", "branch": "agent/ana", "log": "/x/check.log", "tasks": []string{"ana.2"}})
	l.add(t, "ana", "ana", api.ReceiptOpens, 5, map[string]any{"opens": []api.Open{{Time: at(5), Path: "b", Op: "open"}, {Time: at(5), Path: "w", Op: "open-write", Write: true}}})
	l.add(t, "ana", "ana", api.EventModelUsed, 6, map[string]any{"models": []string{"small"}, "task": "ana.2"})
	l.add(t, "ana", "ana", api.ReceiptOpens, 20, map[string]any{"opens": []api.Open{{Time: at(8), Path: "a b", Op: "open"}, {Time: at(9), Path: "b", Op: "open"}, {Time: at(20), Path: "later", Op: "open"}}})
	l.add(t, "ana", "ana", api.EventModelUsed, 60, map[string]any{"models": []string{"large"}, "task": "ana.2"})
	l.add(t, "ana", "ana", api.EventModelUsed, 60, map[string]any{"models": []string{"later"}, "task": "ana.3"})
	l.add(t, "ana", "ana", api.EventModelUsed, 60, map[string]any{"models": []string{"later"}})
	return l
}

func export(t *testing.T, l *logs, seq uint64) string {
	var b bytes.Buffer
	s := Source{Workspace: "shop", Receipts: l, Commits: commits{}}
	require.NoError(t, s.Export(t.Context(), seq, &b))
	return b.String()
}

func TestAMergeIsDescribed(t *testing.T) {
	out := export(t, recorded(t), 6)
	require.Equal(t, 1, strings.Count(out, "\n"))
	var st Statement
	require.NoError(t, json.Unmarshal([]byte(out), &st))
	require.Equal(t, []Resource{{Name: "refs/heads/main", Digest: map[string]string{"gitCommit": made}}, {Name: "new <file>", Digest: map[string]string{"gitBlob": blob}}, {Name: `"bad\xff"`, Digest: map[string]string{"gitBlob": blob}}}, st.Subject)
	d := st.Predicate.BuildDefinition
	require.Equal(t, []Task{{ID: "ana.2", Prompt: "second"}}, d.ExternalParameters.Tasks)
	require.Equal(t, []string{"large", "small"}, d.InternalParameters.Models)
	require.Equal(t, []string{"ana", "claude", "docs"}, []string{d.InternalParameters.Agent, d.InternalParameters.BaseType, d.InternalParameters.Role})
	require.True(t, d.InternalParameters.Checked)
	require.Empty(t, d.InternalParameters.NotRecorded)
	var uris []string
	for _, r := range d.ResolvedDependencies {
		uris = append(uris, r.URI)
	}
	require.Equal(t, []string{"git:refs/heads/main", "git:refs/heads/agent/ana", "worktree:a%20b", "worktree:b"}, uris, "each once, and none that was only written or later")
	require.Equal(t, "deleted", st.Predicate.RunDetails.Byproducts[1].Annotations["change"])
	require.Equal(t, "2023-11-14T22:13:22Z", st.Predicate.RunDetails.Metadata.StartedOn, "since the merge before")
}

func TestWhatWasNotRecordedIsNamed(t *testing.T) {
	var st Statement
	require.NoError(t, json.Unmarshal([]byte(export(t, recorded(t), 3)), &st))
	require.Len(t, st.Predicate.BuildDefinition.InternalParameters.NotRecorded, 2)
	require.False(t, st.Predicate.BuildDefinition.InternalParameters.Checked)
	l := recorded(t)
	l.entries[""] = l.entries[""][5:]
	st = Statement{}
	require.NoError(t, json.Unmarshal([]byte(export(t, l, 0)), &st))
	require.Contains(t, strings.Join(st.Predicate.BuildDefinition.InternalParameters.NotRecorded, "\n"), "policy: ")
	require.Empty(t, st.Predicate.RunDetails.Metadata.StartedOn)
}

func TestStatementsMatchTheSchemaAndAreTheSameBytes(t *testing.T) {
	text, err := os.ReadFile("testdata/statement.schema.json")
	require.NoError(t, err)
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(text, &schema))
	r, err := schema.Resolve(nil)
	require.NoError(t, err)
	out := export(t, recorded(t), 0)
	for range 20 {
		require.Equal(t, out, export(t, recorded(t), 0))
	}
	n := 0
	for line := range strings.Lines(out) {
		var v any
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		require.NoError(t, r.Validate(v))
		n++
	}
	require.Equal(t, 2, n)
	require.Error(t, r.Validate(map[string]any{"_type": StatementType}), "the schema refuses something")
}

func TestNothingIsWrittenOfABrokenLog(t *testing.T) {
	for name, c := range map[string]struct {
		log  string
		seq  uint64
		git  error
		code api.Code
	}{
		"of the workspace": {log: "", code: api.CodeReceiptsBroken},
		"of the agent":     {log: "ana", code: api.CodeReceiptsBroken},
		"no merge":         {log: "none", seq: 1, code: api.CodeNotFound},
		"no commit":        {log: "none", git: api.Errorf(api.CodeRepoCorrupt, "gone"), code: api.CodeRepoCorrupt},
		"a failing git":    {log: "none", git: errors.New("no"), code: api.CodeInternal},
	} {
		l := recorded(t)
		l.broken = &api.BrokenReceipt{Log: c.log, Seq: 4, Why: "it does not match its hash"}
		var b bytes.Buffer
		err := (&Source{Workspace: "shop", Receipts: l, Commits: commits{c.git}}).Export(t.Context(), c.seq, &b)
		require.Equal(t, c.code, api.CodeOf(err), name)
		require.Empty(t, b.String(), name)
	}
}
