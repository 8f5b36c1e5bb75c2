package agent

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/wire"
	"polis/daemon/shim/dial"
)

// gitShim answers commands in the sandbox by what they begin with.
type gitShim struct {
	Shim
	answers map[string]dial.Result
	ran     []string
}

func (s *gitShim) Run(_ context.Context, r wire.ExecRequest) (dial.Result, error) {
	line := strings.Join(r.Command, " ")
	s.ran = append(s.ran, strings.Join(r.Command[:2], " "))
	for prefix, answer := range s.answers {
		if strings.HasPrefix(line, prefix) {
			return answer, nil
		}
	}
	return dial.Result{}, nil
}

// A branch whose files change only above its view is moved by git in the agent. What that has changed
// before it failed is undone, and nothing else.
func TestForwardInside(t *testing.T) {
	failed := dial.Result{Code: 1}
	for _, c := range []struct {
		name    string
		answers map[string]dial.Result
		ran     []string
		head    string
	}{
		{"merged", nil, []string{"git merge"}, "target"},
		{"refused before a change", map[string]dial.Result{"git merge": failed}, []string{"git merge", "git status"}, "own"},
		{"refused after a change", map[string]dial.Result{"git merge": failed, "git status": {Stdout: " M a\n?? b\n"}},
			[]string{"git merge", "git status", "git reset", "sh -c"}, "own"},
		{"the undo fails", map[string]dial.Result{"git merge": failed, "git status": {Stdout: " M a\n"}, "git reset": failed},
			[]string{"git merge", "git status", "git reset", "sh -c"}, "own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &Manager{Log: slog.New(slog.DiscardHandler)}
			sh := &gitShim{answers: c.answers}
			head := m.forwardInside(t.Context(), sh, &Agent{}, Forwarded{From: "own", To: "own", Inside: "target"})
			require.Equal(t, c.head, head)
			require.Equal(t, c.ran, sh.ran)
		})
	}
}
