package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/gateway/provider"
	"polis/daemon/gateway/recording"
)

// recorded is a request as recordings have it: without the key, should an agent send it.
func (x *exchange) recorded() recording.Request {
	body := x.body
	if len(x.s.forms) > 0 && body != nil {
		body = bytes.Clone(body) // what is sent is as it was
		for _, key := range x.s.forms {
			key.mask(body, false)
		}
	}
	return recording.Request{Service: x.s.config.Name, Kind: string(x.s.kind), Method: x.call.Method, Path: x.call.Path, Model: x.model, Stream: x.stream, Body: body}
}

func recordedAnswer(resp *http.Response) recording.Answer {
	a := recording.Answer{Status: resp.StatusCode, Header: map[string]string{}}
	for _, name := range recording.Headers {
		if v := resp.Header.Get(name); v != "" {
			a.Header[name] = v
		}
	}
	return a
}

// replay answers all requests from a recording.
type replay struct {
	set    wire.Replay
	player *recording.Player
	err    error // player is nil
}

// setReplay begins a replay, or continues it. An agent that replays never reaches a service again, even
// if its recording cannot be read. g.mu is held.
func (g *Gateway) setReplay(r *wire.Replay) error {
	switch {
	case r == nil && g.replay != nil:
		return errors.New("the agent replays a recording, and cannot end that")
	case r == nil || g.replay != nil && g.replay.player != nil:
		return nil
	}
	re := &replay{set: *r}
	re.player, re.err = recording.Open(r.File, recording.Options{Agents: r.Agents, ByOrder: r.ByOrder})
	g.replay = re
	return nil
}

func (g *Gateway) replaying() *replay {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.replay
}

// Replayed returns the result of the requests of a replay; false if there is none.
func (g *Gateway) Replayed() (r wire.Replayed, ok bool) {
	re := g.replaying()
	switch {
	case re == nil:
		return r, false
	case re.player == nil:
		return wire.Replayed{Error: re.err.Error()}, true
	}
	return wire.Replayed{ReplayCounts: re.player.Summary()}, true
}

func (re *replay) close() error {
	if re.player == nil {
		return nil
	}
	return re.player.Close()
}

// answer answers a request from the recording. It is not counted: nothing was used.
func (re *replay) answer(w http.ResponseWriter, x *exchange) *provider.Failure {
	if re.player == nil {
		return &provider.Failure{Status: http.StatusBadRequest, Code: CodeReplay, Message: "the recording cannot be read: polisctl replay says why"}
	}
	b, why := re.player.Find(x.recorded())
	if b == nil {
		return &provider.Failure{Status: http.StatusBadRequest, Code: CodeReplay, Message: why}
	}
	if b.Status < 200 || b.Status > 599 { // it got no answer
		panic(http.ErrAbortHandler)
	}
	for _, name := range recording.Headers {
		if v := b.Header[name]; v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(b.Status)
	rc := http.NewResponseController(w)
	err := b.Body(func(chunk []byte) error {
		if _, err := w.Write(chunk); err != nil {
			return fmt.Errorf("agent gone: %w", err)
		}
		return rc.Flush()
	})
	if err != nil || b.Cut {
		panic(http.ErrAbortHandler) // as the agent saw it, or sees it now
	}
	return nil
}

// StoppedEvent says that nothing more of a task is recorded.
func StoppedEvent(agent, task, why string) api.Event {
	return api.Event{Type: api.EventModelRecording, Agent: agent, Message: fmt.Sprintf("agent %s: the recording of task %s has stopped: %s", agent, task, why),
		Data: map[string]any{"task": task, "why": why}}
}
