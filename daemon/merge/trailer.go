package merge

import (
	"context"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
)

// trailer adds lines to the trailers at the end of a message, unless they are there already.
func (m *Merger) trailer(ctx context.Context, message string, lines []string) (string, error) {
	if len(lines) == 0 {
		return message, nil
	}
	args := []string{"interpret-trailers", "--no-divider", "--where", "end", "--if-exists", "addIfDifferent", "--if-missing", "add"}
	for _, line := range lines {
		args = append(args, "--trailer", line)
	}
	out, err := m.Workspace.Bare().Do(ctx, git.Cmd{Args: args, Stdin: strings.NewReader(strings.TrimRight(message, "\n") + "\n")})
	if err != nil {
		return "", api.Errorf(api.CodeInternal, "name the agent in the message of the merge: %w", err)
	}
	return string(out), nil
}

// paragraph returns trailers as the last paragraph of a message.
func paragraph(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}
