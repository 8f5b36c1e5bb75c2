package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeResource is a resource of which only Ensure is used.
type fakeResource struct {
	Resource
	ensure func(context.Context) error
}

func (fakeResource) Name() string                                 { return "fake" }
func (f fakeResource) Ensure(ctx context.Context, _ *Agent) error { return f.ensure(ctx) }

func TestResourcesAreEnsuredAtTheSameTime(t *testing.T) {
	first, second := make(chan struct{}), make(chan struct{})
	meet := func(mine chan struct{}, other chan struct{}) func(context.Context) error {
		return func(ctx context.Context) error {
			close(mine)
			select {
			case <-other:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	m := &Manager{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Resources: []Resource{fakeResource{ensure: meet(first, second)}, fakeResource{ensure: meet(second, first)}}}
	steps := 0
	m.Crash = func(string) { steps++ }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, m.ensureResources(ctx, &Agent{}))
	require.Equal(t, 2, steps)
}

func TestAFailedResourceEndsTheOthersAndIsReported(t *testing.T) {
	broken := errors.New("broken")
	ended := false
	m := &Manager{Log: slog.New(slog.DiscardHandler), Resources: []Resource{
		fakeResource{ensure: func(ctx context.Context) error {
			<-ctx.Done()
			ended = true
			return context.Cause(ctx)
		}},
		fakeResource{ensure: func(context.Context) error { return broken }},
	}}
	m.Crash = func(step string) { t.Errorf("%s is reached", step) }
	require.ErrorIs(t, m.ensureResources(t.Context(), &Agent{}), broken)
	require.True(t, ended)
}
