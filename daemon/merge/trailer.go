package merge

import (
	"context"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
)

// trailer adds a line to the trailers at the end of a message, unless it is there already.
func (m *Merger) trailer(ctx context.Context, message, line string) (string, error) {
	if line == "" {
		return message, nil
	}
	out, err := m.Workspace.Bare().Do(ctx, git.Cmd{
		Args:  []string{"interpret-trailers", "--no-divider", "--where", "end", "--if-exists", "addIfDifferent", "--if-missing", "add", "--trailer", line},
		Stdin: strings.NewReader(strings.TrimRight(message, "\n") + "\n"),
	})
	if err != nil {
		return "", api.Errorf(api.CodeInternal, "name the agent in the message of the merge: %w", err)
	}
	return string(out), nil
}
