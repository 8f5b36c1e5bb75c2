package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"polis/daemon/api"
)

// OperationQuestion returns the question about a request, of which allowed are the permitted updates of a
// push. Its text has the names of the refs, as git-push(1) writes them, so that an answer can be
// remembered. Its detail has the commits. Its key identifies both.
func OperationQuestion(req api.RemoteRequest, allowed []api.RemoteUpdate) api.RemoteQuestion {
	q := api.RemoteQuestion{Text: "fetch " + req.Remote}
	if req.Op == api.RemotePush {
		names, lines := make([]string, 0, len(allowed)), make([]string, 0, len(allowed))
		for _, u := range allowed {
			name, commit := short(u.Ref), u.Commit
			switch {
			case u.Commit == "":
				name, commit = ":"+name, "(deletes it)"
			case u.Force:
				name = "+" + name
			}
			names, lines = append(names, name), append(lines, fmt.Sprintf("%s %s", u.Ref, commit))
		}
		slices.Sort(names)
		slices.Sort(lines)
		q.Text, q.Detail = "push "+req.Remote+" "+strings.Join(names, " "), strings.Join(lines, "\n")
	}
	if req.DryRun {
		q.Text += " --dry-run"
	}
	h := sha256.Sum256(fmt.Appendf(nil, "%q %q", q.Text, q.Detail))
	q.Key = hex.EncodeToString(h[:])
	return q
}

// short is a ref as the text of a question names it. The name of a branch is whole if it would read as
// a forced update or as another ref: a remembered answer for one must not be one for the other.
func short(ref string) string {
	name := strings.TrimPrefix(ref, "refs/heads/")
	if strings.HasPrefix(name, "+") || strings.HasPrefix(name, "refs/") {
		return ref
	}
	return name
}
