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

// insideWorkers forwards what the agent wants of its workers to polisd, which decides.
func (s *Shim) insideWorkers(w http.ResponseWriter, r *http.Request) error {
	return s.forwardBounded(r, &api.WorkersRequest{}, "workers", "workers", s.inside.workers, func(resp *http.Response) error {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body) //nolint:errcheck // the client detects a truncated response
		return nil
	})
}

// forwardBounded reads a request of the agent's program into req, makes it of polisd's route, and calls answered with
// the answer. about says what it is about; slots bounds those under way. The name of the agent is the shim's,
// whatever the request says.
func (s *Shim) forwardBounded(r *http.Request, req any, route, about string, slots chan struct{}, answered func(*http.Response) error) error {
	if err := readJSON(r, req); err != nil {
		return err
	}
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	default:
		return api.Errorf(api.CodeQuota, "agent %s has %d requests about %s under way: that is the limit", s.Spec.Agent, cap(slots), about).WithHint("wait for one after the other")
	}
	resp, err := s.askDaemon(r.Context(), route, body, "application/json", "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return answered(resp)
}
