package shim

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"polis/daemon/api"
	"polis/daemon/rules/approval"
)

const (
	// beforeToolTime bounds a checkpoint before a call of a tool, which waits for it.
	beforeToolTime = 5 * time.Second
	// listsPerSecond is how often an agent may list its checkpoints.
	listsPerSecond = 5
)

// timelineLimits bound what an agent's requests about its checkpoints cost polisd.
type timelineLimits struct {
	lists *rate.Limiter
	// tools spaces checkpoints before calls of tools: a call too many has none of its own. own spaces those
	// that the agent requests, and its rewinds: one too many is an error.
	tools, own *pace
}

func newTimelineLimits() timelineLimits {
	return timelineLimits{lists: rate.NewLimiter(listsPerSecond, 2*listsPerSecond),
		tools: &pace{least: time.Second, share: 20}, own: &pace{least: 2 * time.Second, share: 5}}
}

// insideTimeline forwards what the agent wants of its own checkpoints to polisd. The name of the agent is
// the shim's, whatever the request says.
func (s *Shim) insideTimeline(w http.ResponseWriter, r *http.Request) error {
	var req api.TimelineRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	often := func(what string, wait time.Duration) error {
		return api.Errorf(api.CodeQuota, "agent %s %s too often", s.Spec.Agent, what).WithHint("try again in %s", max(wait.Round(time.Second), time.Second))
	}
	switch req.Op {
	case api.TimelineList:
		if !s.inside.timeline.lists.Allow() {
			return often("lists its checkpoints", time.Second)
		}
	case api.TimelineCheckpoint, api.TimelineRewind, api.TimelineMount, api.TimelineUnmount:
		end, wait := s.inside.timeline.own.begin(time.Now())
		if end == nil {
			return often("makes, mounts or rewinds to checkpoints", wait)
		}
		defer func() { end(time.Now()) }()
	default:
		return api.Errorf(api.CodeBadRequest, "op = %q: must be list, checkpoint, rewind, mount or umount", api.Shorten(req.Op, 32))
	}
	resp, err := s.askTimeline(r.Context(), req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) //nolint:errcheck // the client detects a truncated response
	return nil
}

func (s *Shim) askTimeline(ctx context.Context, req api.TimelineRequest) (*http.Response, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	return s.askDaemon(ctx, "own-timeline", body, "application/json", "")
}

// markOf returns the request for a checkpoint before the call of a tool that a question is about; nil if the
// tool changes no files. It holds nothing of the question.
func (s *Shim) markOf(q approval.Question) *api.TimelineRequest {
	if !s.Spec.Git || s.Spec.ReadOnly || q.Class == api.ToolRead || q.Class == api.ToolNet {
		return nil
	}
	text, _ := approval.Bounded(q.Text, 100)
	return &api.TimelineRequest{Op: api.TimelineTool, Tool: strings.Clone(approval.Escape(q.Tool)), Note: strings.Clone(text)}
}

// beforeTool makes a checkpoint before a call of a tool. Without one the tool runs nevertheless: the last
// one is a few seconds old.
func (s *Shim) beforeTool(ctx context.Context, req *api.TimelineRequest) {
	if req == nil {
		return
	}
	end, _ := s.inside.timeline.tools.begin(time.Now())
	if end == nil {
		return
	}
	defer func() { end(time.Now()) }()
	ctx, cancel := context.WithTimeout(ctx, beforeToolTime)
	defer cancel()
	resp, err := s.askTimeline(ctx, *req)
	if err != nil {
		s.Log.Debug("no checkpoint made before a tool", "err", err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) //nolint:errcheck // it is for the log
		s.Log.Debug("no checkpoint made before a tool", "status", resp.StatusCode, "answer", string(text))
	}
}
