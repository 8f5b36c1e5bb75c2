package cleanup

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// work is that of an agent whose parent's branch has the commits of parentHas.
type work struct {
	uncommitted, unmerged      int
	stash                      bool
	tips                       []string
	parent                     string
	parentHas                  map[string]bool
	statusErr, stashErr, tipsE error
	asked                      int // of remotes
}

func (w *work) Status(context.Context) (int, int, error) {
	return w.uncommitted, w.unmerged, w.statusErr
}
func (w *work) HasStash() (bool, error)                { return w.stash, w.stashErr }
func (w *work) Tips(context.Context) ([]string, error) { return w.tips, w.tipsE }
func (w *work) Parent(context.Context) (string, string) {
	return w.parent, "tip"
}

func (w *work) IsAncestor(_ context.Context, commit, tip string) (bool, error) {
	if tip != "tip" {
		return false, errors.New("another tip")
	}
	return w.parentHas[commit], nil
}

func (w *work) Names(context.Context) ([]string, error) { w.asked++; return []string{"origin"}, nil }

func (w *work) DefaultHas(context.Context, string, []string) (bool, error) { return true, nil }

func TestWhatIsMeasured(t *testing.T) {
	failed := errors.New("git failed")
	two := []string{"1", "2"}
	for name, c := range map[string]struct {
		work work
		want Measured
	}{
		"nothing of its own":           {work{}, Measured{}},
		"changed files":                {work{uncommitted: 1, unmerged: 1, tips: two}, Measured{Uncommitted: 1, Unmerged: 1}},
		"a stash":                      {work{stash: true, unmerged: 1, tips: two}, Measured{Stash: true, Unmerged: 1}},
		"its parent has all":           {work{unmerged: 2, tips: two, parent: "p", parentHas: map[string]bool{"1": true, "2": true}}, Measured{Unmerged: 2, Parent: "p"}},
		"its parent has one":           {work{unmerged: 2, tips: two, parent: "p", parentHas: map[string]bool{"1": true}}, Measured{Unmerged: 2, Remote: "origin", Asked: []string{"origin"}}},
		"no agent made it":             {work{unmerged: 2, tips: two}, Measured{Unmerged: 2, Remote: "origin", Asked: []string{"origin"}}},
		"no commit is known":           {work{unmerged: 2, parent: "p"}, Measured{Unmerged: 2}},
		"its status cannot be read":    {work{statusErr: failed, unmerged: 1}, Measured{Unmerged: 1, Err: failed}},
		"its stash cannot be read":     {work{stashErr: failed}, Measured{Err: failed}},
		"its commits cannot be listed": {work{unmerged: 1, tipsE: failed}, Measured{Unmerged: 1, Err: failed}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Measure(t.Context(), "main", &c.work, &c.work, slog.New(slog.DiscardHandler))
			c.want.Target = "main"
			require.Equal(t, c.want, got)
			require.Equal(t, len(c.want.Asked), c.work.asked, "remotes are queried only if all else would let the agent go")
		})
	}
}
