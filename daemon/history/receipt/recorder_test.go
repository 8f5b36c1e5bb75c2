package receipt

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func recorder(t *testing.T, s *Store) *Recorder {
	r := &Recorder{Workspaces: func() map[string]string { return map[string]string{"claude": "project", "gemini": "project"} },
		Stores: func() map[string]*Store { return map[string]*Store{"project": s} }, Faulty: func(string, error) {}, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	r.Open(t.Context())
	t.Cleanup(r.Close)
	return r
}

func shown(t *testing.T, s *Store, agent string) []api.Receipt {
	out, err := s.Read(t.Context(), api.ReceiptsRequest{Agent: agent, Limit: maxShown})
	require.NoError(t, err)
	require.Nil(t, out.Broken)
	var all []api.Receipt
	for _, r := range out.Receipts {
		if r.Type != api.ReceiptOpened {
			all = append(all, r)
		}
	}
	return all
}

func TestEventsBecomeReceiptsOfTheirWorkspace(t *testing.T) {
	s := store(t.TempDir())
	r := recorder(t, s)
	r.Put(api.Event{Type: api.EventAgentCreated, Agent: "claude", Message: "added", Data: map[string]any{"workspace": "project"}})
	r.Put(api.Event{Type: api.EventDenied, Agent: "claude", Message: "refused", Data: map[string]any{"op": "open", "path": "a"}})
	r.Put(api.Event{Type: api.EventDenied, Agent: "claude", Message: "refused", Data: map[string]any{"op": "open", "path": "a"}})
	r.Put(api.Event{Type: api.EventDenied, Agent: "claude", Message: "probe", Data: map[string]any{"probe": true}})
	r.Put(api.Event{Type: api.EventAgentStatus, Agent: "claude", Message: "progress"})
	r.Put(api.Event{Type: api.EventDenied, Agent: "stranger", Message: "of no workspace"})
	r.Put(api.Event{Type: api.EventDown, Message: "removed", Data: map[string]any{"workspace": "elsewhere"}})
	r.Settle(t.Context())
	got := shown(t, s, "")
	require.Len(t, got, 2, "%+v", got)
	require.Equal(t, "added", got[0].Message)
	require.Empty(t, got[0].Log)
	require.Equal(t, "claude", got[1].Log)
	require.Equal(t, 2, got[1].Count)
}

// TestAFloodOfOneAgentCostsNoOtherAReceipt: it is bounded, what it loses is counted, and entries of
// others and of the workspace are all there.
func TestAFloodOfOneAgentCostsNoOtherAReceipt(t *testing.T) {
	s := store(t.TempDir())
	r := recorder(t, s)
	const flood = 20000
	for i := range flood {
		r.Put(api.Event{Type: api.EventDenied, Agent: "claude", Message: "flood", Data: map[string]any{"path": fmt.Sprint(i)}})
		if i%1000 == 0 {
			r.Put(api.Event{Type: api.EventDenied, Agent: "gemini", Message: "refused", Data: map[string]any{"path": fmt.Sprint(i)}})
			r.Put(api.Event{Type: api.EventAgentSettings, Agent: "claude", Message: "changed"})
		}
	}
	r.Close()
	count := map[string]int{}
	lost := 0
	for _, x := range shown(t, s, "") {
		count[x.Agent+" "+x.Message]++
		if x.Type == api.ReceiptMissed {
			require.Equal(t, "claude", x.Log)
			lost += x.Count
		}
	}
	require.Equal(t, flood/1000, count["gemini refused"])
	require.Equal(t, flood/1000, count["claude changed"])
	require.LessOrEqual(t, count["claude flood"], shareBurst+shareRate*10)
	require.Equal(t, flood, count["claude flood"]+lost, "every lost entry is counted")
	require.True(t, verified(t, s, "").Intact)
}

// TestAStoreThatCannotBeWrittenIsAFault until it can again, and nothing is lost meanwhile.
func TestAStoreThatCannotBeWrittenIsAFault(t *testing.T) {
	dir := t.TempDir()
	s := store(filepath.Join(dir, "receipts"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "receipts"), nil, 0o600)) // no directory can be made there
	r := recorder(t, s)
	var faults atomic.Int32
	r.Faulty = func(_ string, err error) {
		if err != nil {
			faults.Add(1)
		}
	}
	r.Put(api.Event{Type: api.EventAgentSettings, Agent: "claude", Message: "changed"})
	r.Settle(t.Context())
	require.Error(t, r.Fault())
	require.NoError(t, Refusal(r.Fault(), false))
	require.Equal(t, api.CodeAuditFull, api.CodeOf(Refusal(r.Fault(), true)))
	require.Equal(t, int32(1), faults.Load())
	require.NoError(t, os.Remove(filepath.Join(dir, "receipts")))
	r.Settle(t.Context())
	require.NoError(t, r.Fault())
	require.Len(t, shown(t, s, ""), 1)
}
