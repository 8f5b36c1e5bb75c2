package gateway

import (
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api/setting"
	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/usage"
	"polis/internal/need"
)

// afterKill returns what a shim finds that starts when this one was killed.
func afterKill(t *testing.T, dir string) (ledger.Counts, ledger.Recovered) {
	copied := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(copied, "l"), os.DirFS(dir)))
	l, err := ledger.Open(filepath.Join(copied, "l"))
	require.NoError(t, err)
	defer l.Close()
	return l.Sum(func(ledger.Key) bool { return true }), l.Recovered()
}

func TestARequestThatIsOpenAtAKillIsCounted(t *testing.T) {
	s := newStandIn(t)
	s.next = make(chan struct{})
	m, dir := all(s.URL), t.TempDir()
	for i := range m.Models {
		m.Models[i].Currency, m.Models[i].Prices = "EUR", []setting.ModelPrice{{Input: 1e6}}
	}
	e := newEndpointIn(t, dir, m)
	e.Work = working("a.1")
	body := `{"model":"m","stream":true,"max_tokens":2,"in":5}`
	resp := e.do("POST", "/anthropic/v1/messages", body)
	s.next <- struct{}{}
	want := int64(len(body)/3) + 1
	c, r := afterKill(t, dir)
	require.Equal(t, ledger.Recovered{Open: 1}, r)
	require.Equal(t, ledger.Counts{Requests: 1, Cut: 1, Estimated: 1, Tokens: usage.Tokens{Input: want}, Micros: want * 1e6, Priced: 1}, c)
	require.Zero(t, e.total(), "it has not ended")
	s.next <- struct{}{}
	_, err := io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	c, r = afterKill(t, dir)
	require.Zero(t, r)
	require.Equal(t, usage.Tokens{Input: 5, Output: 2}, c.Tokens, "once it has, its own count is all")
	require.Equal(t, int64(1), c.Requests)

	status, _ := e.post("/anthropic/v1/messages", `{"model":"../x"}`)
	require.Equal(t, 400, status)
	_, r = afterKill(t, dir)
	require.Zero(t, r, "what is not sent is not open")
}

func TestADiskThatIsFullIsReportedAndBudgetsHold(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	require.NoError(t, unix.Mount("ledger", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,mode=0700"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	s := newStandIn(t)
	m := all(s.URL)
	m.Budget = setting.ModelBudget{DayTokens: 30}
	e := newEndpointIn(t, dir, m)
	var reports atomic.Int64
	e.Uncounted = func(err error) { reports.Add(1); require.ErrorIs(t, err, syscall.ENOSPC) }
	fill := filepath.Join(dir, "fill")
	require.ErrorIs(t, os.WriteFile(fill, make([]byte, 1<<20), 0o600), syscall.ENOSPC)
	for _, want := range []int{200, 200, 200, 429} {
		status, text := e.post("/anthropic/v1/messages", `{"model":"m","max_tokens":10}`)
		require.Equal(t, want, status, text)
	}
	require.Equal(t, int64(1), reports.Load(), "once")
	require.NoError(t, os.Remove(fill))
	e.mu.Lock()
	e.budget = setting.ModelBudget{}
	e.mu.Unlock()
	status, _ := e.post("/anthropic/v1/messages", `{"model":"m","max_tokens":10}`)
	require.Equal(t, 200, status)
	require.Eventually(t, func() bool { c, _ := afterKill(t, dir); return c.Output == 40 && c.Refused == 1 && c.Requests == 5 }, 30*time.Second, 10*time.Millisecond)
	require.ErrorIs(t, os.WriteFile(fill, make([]byte, 1<<20), 0o600), syscall.ENOSPC)
	require.Eventually(t, func() bool { // the last page of the file has room for some
		e.post("/anthropic/v1/messages", `{"model":"m","max_tokens":10}`)
		return reports.Load() == 2
	}, 10*time.Second, time.Millisecond, "again")
	require.NoError(t, os.Remove(fill))
}
