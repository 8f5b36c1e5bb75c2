package shim

import (
	"encoding/json"
	"io"
	"net/http"

	"polis/daemon/api"
)

// maxSaidCalls is the most requests about what was said that an agent may have at a time.
const maxSaidCalls = 8

// insideSaid forwards what the agent's program wants of the texts that wait for the agent to polisd, which
// decides. A text that it takes is a step of the task.
func (s *Shim) insideSaid(w http.ResponseWriter, r *http.Request) error {
	var req api.SaidRequest
	return s.forwardBounded(r, &req, "said", "what was said", s.inside.said, func(resp *http.Response) error {
		answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err != nil {
			return api.Errorf(api.CodeUnavailable, "polisd does not answer: %w", err).WithHint("it may be restarting; try again in a few seconds")
		}
		var res api.SaidResponse
		if req.Take != "" && resp.StatusCode == http.StatusOK && json.Unmarshal(answer, &res) == nil && res.ID != "" {
			s.noteStep(api.StepSaid, func() string { return "by " + res.From + ": " + api.Shorten(res.Text, 1000) })
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(answer) //nolint:errcheck // the client detects a truncated response
		return nil
	})
}
