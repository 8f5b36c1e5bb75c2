package server

import (
	"context"
	"net/http"

	"polis/daemon/api"
)

func (s *Server) createSnapshot(w http.ResponseWriter, r *http.Request) error {
	var req api.SnapshotRequest
	if err := optional(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.CreateSnapshot(r.Context(), r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusCreated, res)
}

func (s *Server) snapshots(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Snapshots(r.Context(), r.URL.Query().Get("workspace"), r.URL.Query().Get("agent"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"snapshots": res})
}

func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Snapshot(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) snapshotFiles(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.SnapshotFiles(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"files": res})
}

// snapshotContent streams a file. If it is damaged, the answer is cut short, which a client sees.
func (s *Server) snapshotContent(w http.ResponseWriter, r *http.Request) error {
	out := &fileBody{w: w, kind: "application/octet-stream"}
	err := s.Backend.SnapshotContent(r.Context(), r.PathValue("id"), r.URL.Query().Get("path"), out)
	switch {
	case err != nil && out.begun:
		s.Log.Warn("content of a snapshot cut short", "op", r.PathValue("id"), "err", err)
		panic(http.ErrAbortHandler)
	case err != nil:
		return err
	}
	out.begin()
	return nil
}

type fileBody struct {
	w     http.ResponseWriter
	kind  string
	begun bool
}

func (c *fileBody) begin() {
	if !c.begun {
		c.begun = true
		c.w.Header().Set("Content-Type", c.kind)
		c.w.WriteHeader(http.StatusOK)
	}
}

func (c *fileBody) Write(b []byte) (int, error) {
	c.begin()
	return c.w.Write(b)
}

func (s *Server) diffSnapshot(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.DiffSnapshot(r.Context(), r.PathValue("id"), r.URL.Query().Get("to"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

// verifySnapshot also compares the files of an agent, with worktree=true those of its own agent.
func (s *Server) verifySnapshot(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	agent, own := q.Get("against"), q.Get("worktree")
	if own != "" && own != "true" || own != "" && agent != "" {
		return api.Errorf(api.CodeBadRequest, "give worktree=true, or against=AGENT, or none of them")
	}
	verify := s.Backend.VerifySnapshot
	if agent != "" || own != "" {
		verify = func(ctx context.Context, id string) (api.SnapshotCheck, error) {
			return s.Backend.CompareSnapshot(ctx, id, agent)
		}
	}
	res, err := verify(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) mountSnapshot(w http.ResponseWriter, r *http.Request) error {
	var req api.SnapshotMountRequest
	if err := optional(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.MountSnapshot(r.Context(), r.PathValue("id"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) unmountSnapshot(w http.ResponseWriter, r *http.Request) error {
	inside := r.URL.Query().Get("inside")
	if inside != "" && inside != "true" {
		return api.Errorf(api.CodeBadRequest, "inside = %q: must be true, or not be there", api.Shorten(inside, 32))
	}
	res, err := s.Backend.UnmountSnapshot(r.Context(), r.PathValue("id"), inside == "true")
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) restoreSnapshot(w http.ResponseWriter, r *http.Request) error {
	var req api.SnapshotRestoreRequest
	if err := optional(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.RestoreSnapshot(r.Context(), r.PathValue("id"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) removeSnapshot(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.RemoveSnapshot(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) timeline(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.Timeline(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, map[string]any{"checkpoints": append([]api.Snapshot{}, res...)})
}

func (s *Server) diffTimeline(w http.ResponseWriter, r *http.Request) error {
	res, err := s.Backend.DiffTimeline(r.Context(), r.PathValue("name"), r.URL.Query().Get("from"), r.URL.Query().Get("to"))
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) checkpoint(w http.ResponseWriter, r *http.Request) error {
	var req api.CheckpointRequest
	if err := optional(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.Checkpoint(r.Context(), r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

func (s *Server) rewind(w http.ResponseWriter, r *http.Request) error {
	var req api.RewindRequest
	if err := optional(r, &req); err != nil {
		return err
	}
	res, err := s.Backend.Rewind(r.Context(), r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

// ownTimeline is for shims: what their agent wants of its own checkpoints.
func (s *Server) ownTimeline(w http.ResponseWriter, r *http.Request) error {
	var req api.TimelineRequest
	if err := read(r, &req); err != nil {
		return err
	}
	switch req.Op {
	case api.TimelineList, api.TimelineCheckpoint, api.TimelineTool:
	case api.TimelineMount, api.TimelineUnmount:
	case api.TimelineRewind:
		if req.Rewind == nil {
			req.Rewind = &api.RewindRequest{}
		}
	default:
		return api.Errorf(api.CodeBadRequest, "op = %q: must be list, checkpoint, rewind, mount or umount", api.Shorten(req.Op, 32))
	}
	res, err := s.Backend.OwnTimeline(r.Context(), r.PathValue("name"), req)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}
