package queue

import (
	"slices"
	"strings"

	"polis/daemon/api"
)

// SelectCheck returns the check that a request is about, of the checks of one agent in one workspace, the newest first, and
// its number.
func SelectCheck(checks []api.MergeSignal, req api.CheckLogRequest) (s api.MergeSignal, number int, err error) {
	number = max(req.Check, 1)
	if req.ID != "" {
		number = 1 + slices.IndexFunc(checks, func(s api.MergeSignal) bool { return s.ID == req.ID })
	}
	switch {
	case len(checks) == 0:
		return s, 0, api.Errorf(api.CodeNotFound, "no check of a merge of agent %s is recorded", req.Agent).WithHint("polisctl queue shows the last results")
	case number == 0:
		return s, 0, api.Errorf(api.CodeNotFound, "request %q of agent %s had no check that is recorded", api.Shorten(req.ID, 64), req.Agent).WithHint("polisctl queue shows the last results")
	case number > len(checks):
		return s, 0, api.Errorf(api.CodeNotFound, "check = %d: agent %s has %s", number, req.Agent, api.Count(len(checks), "check")).WithHint("polisctl queue shows the last results")
	}
	return checks[number-1], number, nil
}

// CheckPlace returns the workspace whose checks a request about an agent is about. there is that of the agent, if there is
// one of its name; with are the workspaces that have checks of one.
func CheckPlace(req api.CheckLogRequest, there string, with []string) (string, error) {
	switch {
	case req.Workspace != "":
		return req.Workspace, nil
	case there != "":
		return there, nil
	case len(with) == 1:
		return with[0], nil
	case len(with) > 1:
		return "", api.Errorf(api.CodeBadRequest, "several workspaces have checks of an agent %s, which was removed: %s", req.Agent, strings.Join(with, ", ")).WithHint("--workspace NAME")
	}
	return "", api.Errorf(api.CodeNotFound, "no check of a merge of agent %s is recorded", req.Agent).WithHint("polisctl queue shows the last results")
}
