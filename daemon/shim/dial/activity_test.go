package dial

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/wire"
)

// agentOf returns a file in place of the processor time of an agent. run changes it.
type agentOf struct {
	t    *testing.T
	file string
	n    int

	mu    sync.Mutex
	woken []time.Time
	err   error
}

func (a *agentOf) run() {
	a.n++
	require.NoError(a.t, os.WriteFile(a.file, []byte{byte('0' + a.n%10), byte('0' + a.n/10)}, 0o600))
}

func (a *agentOf) wake(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.woken = append(a.woken, time.Now())
	err := a.err
	a.err = nil
	return err
}

func (a *agentOf) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

func (a *agentOf) times() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.woken)
}

func TestActivityWakesTheShimsOfAgentsThatRun(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		act := &Activity{}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { act.Run(ctx) })
		add := func(name string) (*agentOf, func()) {
			a := &agentOf{t: t, file: filepath.Join(dir, name)}
			a.run()
			remove, err := act.add(a.file, a.wake)
			require.NoError(t, err)
			return a, remove
		}
		idle, removeIdle := add("idle")
		busy, removeBusy := add("busy")
		time.Sleep(DefaultInterval + time.Millisecond)
		require.Equal(t, 1, idle.times(), "whether it ran before is not known")
		require.Equal(t, 1, busy.times())
		began := time.Now()
		for range 100 {
			busy.run()
			time.Sleep(100 * time.Millisecond)
		}
		took := time.Since(began)
		require.Equal(t, 1, idle.times())
		require.GreaterOrEqual(t, busy.times(), 1+int(took/(wire.WakeAgain+DefaultInterval)))
		require.LessOrEqual(t, busy.times(), 2+int(took/wire.WakeAgain))
		// The shim stays awake for 2 WakeAgain. The interval is shorter, so that it does not pause.
		busy.mu.Lock()
		woken := slices.Clone(busy.woken)
		busy.mu.Unlock()
		for i := 1; i < len(woken); i++ {
			require.Less(t, woken[i].Sub(woken[i-1]), 2*wire.WakeAgain-DefaultInterval)
		}

		time.Sleep(time.Minute)
		n := idle.times()
		idle.fail(errors.New("it did not answer"))
		idle.run()
		time.Sleep(DefaultInterval + time.Millisecond)
		require.Equal(t, n+1, idle.times(), "within a look")
		time.Sleep(DefaultInterval)
		require.Equal(t, n+2, idle.times(), "what failed is done again")
		time.Sleep(time.Minute)
		require.Equal(t, n+2, idle.times())

		removeIdle()
		removeBusy()
		idle.run()
		time.Sleep(time.Second)
		require.Equal(t, n+2, idle.times())
		cancel()
		wg.Wait()
	})
}

func TestAMeterThatCannotBeOpenedIsAnError(t *testing.T) {
	_, err := (&Activity{}).add(filepath.Join(t.TempDir(), "none"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}
