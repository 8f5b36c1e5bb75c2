package shim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/host/peer"
)

// maxBody bounds a request, in bytes.
const maxBody = 1 << 20

// readJSON reads a bounded request body and rejects unknown fields. It releases the body: a request
// may wait for hours.
func readJSON(r *http.Request, v any) error {
	body := io.LimitReader(r.Body, maxBody)
	r.Body = http.NoBody
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return api.Errorf(api.CodeBadRequest, "request body: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return api.Errorf(api.CodeBadRequest, "request body: it has more than one value")
	}
	return nil
}

type handler func(w http.ResponseWriter, r *http.Request) error

// serveHTTP converts handlers' errors to JSON.
func serveHTTP(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			e := api.AsError(err)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(e.Code.Status())
			_ = json.NewEncoder(w).Encode(e) //nolint:errcheck // the client left
		}
	}
}

func writeJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) //nolint:errcheck // the client left
	return nil
}

// control is the shim's own API for polisd, which is root. Members of the group polis can connect
// as well: their terminals use a few of its routes.
func (s *Shim) control() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range s.controlRoutes() {
		mux.Handle(pattern, serveHTTP(only(peer.Peer.Admin, h)))
	}
	member := func(p peer.Peer) bool { return p.Admin() || p.In(s.Spec.SocketGID) }
	for pattern, h := range s.terminalRoutes() {
		mux.Handle(pattern, serveHTTP(only(member, h)))
	}
	return mux
}

// controlRoutes are those of wire.ControlRoutes.
func (s *Shim) controlRoutes() map[string]handler {
	return map[string]handler{
		"GET /v1/ping":   func(w http.ResponseWriter, _ *http.Request) error { return writeJSON(w, struct{}{}) },
		"GET /v1/status": func(w http.ResponseWriter, _ *http.Request) error { return writeJSON(w, s.status()) },
		"GET /v1/why": func(w http.ResponseWriter, _ *http.Request) error {
			return writeJSON(w, map[string]any{"why": s.why()})
		},
		"GET /v1/events":          s.streamEvents,
		"POST /v1/start":          s.handleStart,
		"POST /v1/stop":           s.handleStop,
		"POST /v1/freeze":         s.handleFreeze,
		"POST /v1/thaw":           s.handleThaw,
		"POST /v1/input":          s.handleInput,
		"POST /v1/settings":       s.handleSettings,
		"POST /v1/gate":           s.handleGate,
		"POST /v1/remount":        s.handleRemount,
		"POST /v1/blocked":        s.handleBlocked,
		"POST /v1/models":         s.handleModels,
		"POST /v1/models/pause":   s.handleModelPause,
		"POST /v1/models/shares":  s.handleModelShares,
		"GET /v1/models/replay":   s.handleReplayed,
		"POST /v1/look":           s.handleLook,
		"GET /v1/screen":          s.handleScreen,
		"GET /v1/steps":           s.handleSteps,
		"GET /v1/opens":           s.handleOpens,
		"GET /v1/leftovers":       s.handleLeftovers,
		"DELETE /v1/leftovers":    s.handleLeftovers,
		"GET /v1/approvals":       s.handleApprovals,
		"GET /v1/approvals/{id}":  s.handleApproval,
		"POST /v1/approvals/{id}": s.handleAnswer,
		"POST /v1/ports":          s.handlePort,
		"DELETE /v1/ports/{port}": s.handlePortRemove,
		"POST /v1/release-idle":   func(w http.ResponseWriter, _ *http.Request) error { s.releaseIdle(); return writeJSON(w, struct{}{}) },
		"POST /v1/changes":        s.handleChanges,
		"POST /v1/invalidate":     func(w http.ResponseWriter, _ *http.Request) error { s.invalidate(); return writeJSON(w, struct{}{}) },

		"POST /v1/snapshots":        s.handleMount,
		"DELETE /v1/snapshots/{id}": s.handleUnmount,
	}
}

// terminalRoutes are those of wire.TerminalRoutes.
func (s *Shim) terminalRoutes() map[string]handler {
	return map[string]handler{"POST /v1/exec": s.exec, "POST /v1/attach": s.attach}
}

type peerKey struct{}

// withPeer records the peer's credentials; without them no request is answered.
func (s *Shim) withPeer(ctx context.Context, c net.Conn) context.Context {
	p, err := peer.Of(c)
	if err != nil {
		s.Log.Warn("peer credentials", "err", err)
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// only admits the peers for which may returns true.
func only(may func(peer.Peer) bool, h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if p, ok := r.Context().Value(peerKey{}).(peer.Peer); !ok || !may(p) {
			return api.Errorf(api.CodeForbidden, "%s %s of a shim is for polisd", r.Method, api.Shorten(r.URL.Path, 100))
		}
		return h(w, r)
	}
}

func (s *Shim) handleStart(w http.ResponseWriter, r *http.Request) error {
	var req wire.StartRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	if err := s.startMain(r.Context(), req); err != nil {
		return err
	}
	return writeJSON(w, struct{}{})
}

func (s *Shim) handleStop(w http.ResponseWriter, r *http.Request) error {
	var req wire.StopRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	if m := s.current(); m != nil {
		if err := s.stopSession(r.Context(), m, time.Duration(req.Grace)); err != nil {
			return api.Errorf(api.CodeReapFailed, "stop agent %s: %w", s.Spec.Agent, err)
		}
	}
	return writeJSON(w, struct{}{})
}

func (s *Shim) handlePort(w http.ResponseWriter, r *http.Request) error {
	var req wire.PortRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	if err := s.ports.add(r.Context(), req); err != nil {
		return err
	}
	return writeJSON(w, struct{}{})
}

func (s *Shim) handlePortRemove(w http.ResponseWriter, r *http.Request) error {
	n, err := strconv.Atoi(r.PathValue("port"))
	if err != nil {
		return api.Errorf(api.CodeBadRequest, "port %q is not a number", api.Shorten(r.PathValue("port"), 32))
	}
	key := portKey{cmp.Or(r.URL.Query().Get("protocol"), api.ProtoTCP), n}
	if err := s.ports.remove(key); err != nil {
		return err
	}
	return writeJSON(w, struct{}{})
}

// streamEvents sends one JSON event per line, and an empty line as heartbeat. A client with
// ?wakes=1 must send POST /v1/look when the meter that the header names moves.
func (s *Shim) streamEvents(w http.ResponseWriter, r *http.Request) error {
	since, err := strconv.ParseUint(r.URL.Query().Get("since"), 10, 64)
	if err != nil {
		since = 0
	}
	if r.Header.Get(wire.VersionHeader) == "" {
		s.olderPolisd()
	}
	rc := http.NewResponseController(w)
	wake, cancel := s.events.Watch()
	defer cancel()
	if r.URL.Query().Get("wakes") != "" && s.activity != nil {
		w.Header().Set(wire.MeterHeader, s.activity.meter.Path())
		defer s.activity.watched()()
	}
	enc := json.NewEncoder(w)
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	w.WriteHeader(http.StatusOK)
	for {
		for _, e := range s.events.Since(since) {
			if enc.Encode(e) != nil {
				return nil
			}
			since = e.ID
		}
		if rc.Flush() != nil {
			return nil
		}
		select {
		case <-wake:
		case <-tick.C:
			s.beat()
			if _, err := io.WriteString(w, "\n"); err != nil {
				return nil
			}
		case <-r.Context().Done():
			return nil
		case <-s.stopping:
			return nil
		}
	}
}
