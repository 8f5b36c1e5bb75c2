package queue

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/merge"
)

// host records what a Worker reports.
type host struct {
	h    *history
	w    *Worker
	size int

	mu      sync.Mutex
	kept    []api.QueueEntry // as on the disk
	landed  []string
	unsaved int // so many saves fail
	checker Checker
	hold    chan struct{} // if set, Landed waits for it
}

func (h *host) Prepare(_ context.Context, e api.QueueEntry) (Job, error) {
	if strings.HasPrefix(e.Agent, "no-") {
		return Job{}, api.Errorf(api.CodeAgentNotFound, "there is no agent %s", e.Agent)
	}
	return Job{Request: merge.Request{Agent: e.Agent, Branch: e.Agent}}, nil
}
func (h *host) BatchMerger() (*BatchMerger, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &BatchMerger{Merges: h.h, Check: h.checker}, h.size
}
func (h *host) Landed(_ context.Context, o Outcome) (api.QueueOutcome, error) {
	if h.hold != nil {
		<-h.hold
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	out := api.QueueOutcome{MergeStatus: api.MergeMerged, MergeCommitSHA: o.Result.Commit}
	if o.Err != nil {
		out = api.QueueOutcome{MergeStatus: api.MergePending, Code: api.CodeOf(o.Err)}
	}
	h.landed = append(h.landed, o.Job.Entry.Agent+" "+string(out.Code))
	return out, nil
}
func (h *host) Save() error {
	es := h.w.Entries()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unsaved > 0 {
		h.unsaved--
		return errors.New("the disk is full")
	}
	h.kept = es
	return nil
}

func newWorker(t *testing.T, size int) (*Worker, *host) {
	h := &host{h: &history{}, size: size}
	w := &Worker{Host: h, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: time.Now}
	h.w = w
	t.Cleanup(w.Close)
	return w, h
}

func entry(agent string) api.QueueEntry { return api.QueueEntry{Agent: agent, By: "task"} }

func TestAWorkerMergesInOrderAndReports(t *testing.T) {
	w, h := newWorker(t, 2)
	for _, a := range []string{"a1", "b1", "no-c", "d1"} {
		_, err := w.Add(entry(a))
		require.NoError(t, err)
	}
	require.Len(t, h.kept, 4)
	w.Open(t.Context())
	out, err := submit(t.Context(), w, entry("e1"))
	require.NoError(t, err)
	require.Equal(t, "a1 b1 d1 e1", out.MergeCommitSHA)
	require.Equal(t, []string{"a1 ", "b1 ", "no-c AGENT_NOT_FOUND", "d1 ", "e1 "}, h.landed)
	require.Eventually(t, func() bool { return len(w.Entries()) == 0 }, time.Minute, time.Millisecond)
	require.Equal(t, "e1", w.Recent()[0].Agent)
	_, err = submit(t.Context(), w, entry("no-x"))
	require.Equal(t, api.CodeAgentNotFound, api.CodeOf(err))
	w.Close()
	require.Empty(t, h.kept)
}

func TestWhatCannotBeSavedIsNotQueued(t *testing.T) {
	w, h := newWorker(t, 1)
	h.unsaved = 1
	_, err := w.Add(entry("a1"))
	require.Error(t, err)
	require.Empty(t, w.Entries())
	h.unsaved = 1
	_, err = submit(t.Context(), w, entry("b1"))
	require.Error(t, err, "and no caller waits for it")
	require.Empty(t, w.waiting)
}

// parked is a check that hangs until its context ends.
type parked struct{ began chan string }

func (p parked) Check(ctx context.Context, _, label string) (string, error) {
	p.began <- label
	<-ctx.Done()
	return "", context.Cause(ctx)
}

func TestAnEntryIsTakenOutOfItsCheck(t *testing.T) {
	w, h := newWorker(t, 8)
	p := parked{make(chan string, 8)}
	h.checker = p
	for _, a := range []string{"a1", "b1"} {
		_, err := w.Add(entry(a))
		require.NoError(t, err)
	}
	w.Open(t.Context())
	require.Equal(t, "a1 b1", <-p.began)
	require.Equal(t, api.QueueChecking, w.Entries()[0].State)
	was, err := w.Remove("a1")
	require.NoError(t, err)
	require.True(t, was)
	require.Equal(t, "b1", <-p.began, "the other one continues")
	require.Empty(t, h.landed)
}

func TestACloseKeepsWhatIsNotDone(t *testing.T) {
	w, h := newWorker(t, 8)
	p := parked{make(chan string, 8)}
	h.checker = p
	w.Open(t.Context())
	done := make(chan error, 1)
	go func() { _, err := submit(t.Context(), w, entry("a1")); done <- err }()
	<-p.began
	w.Close()
	err := <-done
	require.Equal(t, api.CodeUnavailable, api.CodeOf(err))
	require.Equal(t, "polisctl queue shows it when polisd is back", api.AsError(err).Hint)
	require.Len(t, h.kept, 1)

	again, h2 := newWorker(t, 8)
	again.Load(h.kept)
	again.Open(t.Context())
	require.Eventually(t, func() bool { return len(again.Entries()) == 0 }, time.Minute, time.Millisecond)
	require.Equal(t, []string{"a1"}, h2.h.target)
}

func TestACancelledCallerLeavesTheEntry(t *testing.T) {
	w, _ := newWorker(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := submit(ctx, w, entry("a1"))
	require.Equal(t, api.CodeTimeout, api.CodeOf(err))
	require.Equal(t, "it stays in the queue: polisctl queue shows it, polisctl queue remove a1 takes it out", api.AsError(err).Hint)
	require.Len(t, w.Entries(), 1)
	require.NoError(t, w.Prioritize("a1", 3))
	require.Equal(t, 3, w.Entries()[0].Priority)
	_, err = w.Remove("a1")
	require.NoError(t, err)
	require.Empty(t, w.Entries())
}

func TestAMergeThatIsOnTheTargetIsWaitedForUntilItIsRecorded(t *testing.T) {
	w, h := newWorker(t, 1)
	moved := make(chan struct{})
	h.hold, h.h.onAdvance = make(chan struct{}), func() { close(moved) }
	require.NoError(t, w.Settled(t.Context(), "a1"), "there is nothing to wait for")
	_, err := w.Add(entry("a1"))
	require.NoError(t, err)
	require.NoError(t, w.Settled(t.Context(), "a1"), "nor for an entry that only waits")
	w.Open(t.Context())
	<-moved

	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err = w.Settled(short, "a1")
	require.Equal(t, api.CodeTimeout, api.CodeOf(err))
	require.Equal(t, "polisctl queue shows when it is done; then try again", api.AsError(err).Hint)
	require.Empty(t, w.waiting, "who gave up is forgotten")

	done := make(chan error, 1)
	go func() { done <- w.Settled(t.Context(), "a1") }()
	close(h.hold)
	require.NoError(t, <-done)
	require.Equal(t, []string{"a1 "}, h.landed)
}

func submit(ctx context.Context, w *Worker, e api.QueueEntry) (api.QueueOutcome, error) {
	wait, err := w.Submit(e)
	if err != nil {
		return api.QueueOutcome{}, err
	}
	return wait(ctx)
}
