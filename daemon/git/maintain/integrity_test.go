package maintain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/git"
)

// fakeRepo answers with result.
type fakeRepo struct {
	result  error
	ref     string
	history bool
}

func (f *fakeRepo) Check(_ context.Context, ref string, history bool, _ time.Duration) error {
	f.ref, f.history = ref, history
	return f.result
}

func newRecord() (*Record, *fakeRepo, *[]api.Event) {
	repo, events := &fakeRepo{}, &[]api.Event{}
	return &Record{Workspace: "w", Dir: "/ws/bare.git", Repo: repo, Target: func() string { return "main" }, Log: slog.New(slog.DiscardHandler),
		Publish: func(e api.Event) { *events = append(*events, e) }}, repo, events
}

func TestDamageIsReportedOnceAndEndsWithACheck(t *testing.T) {
	r, repo, events := newRecord()
	require.NoError(t, r.Damage(), "it was not checked")
	require.NoError(t, r.Check(t.Context()))
	require.Equal(t, "refs/heads/main", repo.ref)
	require.False(t, repo.history)
	require.Empty(t, *events)

	repo.result = fmt.Errorf("refs/heads/main: %w: a blob is missing", git.ErrDamaged)
	for range 2 {
		err := r.Check(t.Context())
		require.Equal(t, api.CodeRepoCorrupt, api.CodeOf(err))
		require.ErrorContains(t, err, "a blob is missing")
		require.Contains(t, api.AsError(err).Hint, "git -C /ws/bare.git fsck --connectivity-only refs/heads/main")
		require.Equal(t, err.Error(), r.Damage().Error())
	}
	require.True(t, repo.history, "the history of a damaged repository is checked")
	require.Len(t, *events, 1)
	require.Equal(t, api.CodeRepoCorrupt, (*events)[0].Code)

	repo.result = nil
	require.NoError(t, r.Check(t.Context()))
	require.NoError(t, r.Damage())
	require.Len(t, *events, 2)
	require.Equal(t, api.EventDamaged, (*events)[1].Type)
	require.Empty(t, (*events)[1].Code)
}

func TestACheckWithoutAResultChangesNothing(t *testing.T) {
	r, repo, events := newRecord()
	repo.result = context.DeadlineExceeded
	require.NoError(t, r.Check(t.Context()), "a time-out is not damage")
	require.Error(t, r.Note(git.ErrDamaged))
	require.Equal(t, api.CodeRepoCorrupt, api.CodeOf(r.Check(t.Context())), "nor does it end one")
	require.Equal(t, api.CodeRepoCorrupt, api.CodeOf(r.Note(errors.New("pack objects: no space"))))
	require.Len(t, *events, 1)
}

func TestDoctorChecksTheRepository(t *testing.T) {
	r, repo, _ := newRecord()
	require.Equal(t, api.Check{Name: "repository of w", State: api.CheckOK, Found: "the tip of main is whole"}, r.Examine(t.Context()))
	repo.result = git.ErrDamaged
	c := r.Examine(t.Context())
	require.Equal(t, api.CheckFail, c.State)
	require.Equal(t, api.CodeRepoCorrupt, c.Code)
	require.Contains(t, c.Fix, "fsck")
}
