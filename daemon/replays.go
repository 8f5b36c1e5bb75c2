package daemon

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"polis/daemon/agent/models"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/gateway/recording"
)

// newRecordings returns what removes recordings of model requests.
func (d *Daemon) newRecordings() *models.Sweeper {
	s := &models.Sweeper{Dirs: func() []string { return d.logDirs("") }, Limits: func() config.Recordings { return d.live().Recordings }, Log: d.Log, Now: time.Now}
	s.Open()
	return s
}

// Replay gives a recorded task to a new agent.
func (b *backend) Replay(ctx context.Context, id string, req api.ReplayRequest) (api.Replay, error) {
	logs, err := b.CheckReplay(id)
	if err != nil {
		return api.Replay{}, err
	}
	info, err := recording.Stat(recording.File(logs, id))
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Exchanges == 0:
		return api.Replay{}, api.Errorf(api.CodeNotFound, "there is no recording of task %s: with record = true in [models.NAME] or [gateway], later tasks are recorded", id)
	case err != nil:
		return api.Replay{}, api.Errorf(api.CodeInternal, "the recording of task %s cannot be used: %w", id, err)
	}
	r, err := b.Manager.Replay(ctx, id, req)
	r.Stopped, r.Recorded = info.Stopped, info.Exchanges
	return r, err
}

// Replayed returns a replay by its agent.
func (b *backend) Replayed(ctx context.Context, name string, wait bool) (api.Replay, error) {
	r, err := b.Manager.Replayed(ctx, name, wait)
	if err != nil {
		return r, err
	}
	logs, err := b.CheckReplay(r.Of)
	if logs == "" {
		return r, err
	}
	info, err := recording.Stat(recording.File(logs, r.Of))
	if err != nil { // the shim has it open
		b.Daemon.Log.Debug("recording of a replay not read", "agent", name, "err", err)
	}
	r.Stopped = info.Stopped
	return r, nil
}
