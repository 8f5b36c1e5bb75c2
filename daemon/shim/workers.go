package shim

import (
	"encoding/json"
	"io"
	"net/http"

	"polis/daemon/api"
)

// maxWorkerCalls is the most requests about workers that an agent may have at a time: each waits in
// polisd.
const maxWorkerCalls = 16

// insideWorkers forwards what the agent wants of its workers to polisd, which decides. The name of
// the agent is the shim's, whatever the request says.
func (s *Shim) insideWorkers(w http.ResponseWriter, r *http.Request) error {
	var req api.WorkersRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	select {
	case s.inside.workers <- struct{}{}:
		defer func() { <-s.inside.workers }()
	default:
		return api.Errorf(api.CodeQuota, "agent %s has %d requests about workers under way: that is the limit", s.Spec.Agent, maxWorkerCalls).WithHint("wait for one worker after the other")
	}
	resp, err := s.askDaemon(r.Context(), "workers", body, "application/json", "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) //nolint:errcheck // the client detects a truncated response
	return nil
}
