package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/host/peer"
)

// maxBody bounds a request, in bytes.
const maxBody = 1 << 20

// Server serves the admin API. Set the fields, then Open and Serve; Close ends it,
// also one that is not served yet.
type Server struct {
	Backend Backend
	Log     *slog.Logger
	// GID is the group that may use the API besides root; -1 is none. It is checked for
	// every connection, whatever the mode of the socket.
	GID int
	// ReadGID is the group that may call routes of AccessRead only; -1 is none.
	ReadGID int

	http     *http.Server
	stopping chan struct{}
}

type peerKey struct{}

// Open prepares the server. Serve and Close may then be called in any order, from
// different goroutines.
func (s *Server) Open() {
	s.stopping = make(chan struct{})
	s.http = &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			p, err := peer.Of(c)
			switch {
			case err != nil:
				s.Log.Warn("peer credentials", "err", err)
				return ctx
			}
			who, ok := s.grant(p)
			if !ok {
				s.Log.Warn("caller refused: neither root nor in a group that may call", "uid", p.UID, "pid", p.PID)
				return ctx
			}
			return context.WithValue(ctx, peerKey{}, who)
		},
	}
}

// known is a caller whom the kernel has named, and what it may call.
type known struct {
	unix.Ucred
	may Access
}

// grant returns what a peer may call; false: nothing.
func (s *Server) grant(p peer.Peer) (known, bool) {
	who := known{Ucred: unix.Ucred{Pid: p.PID, Uid: p.UID, Gid: p.GID}}
	switch {
	case p.UID == 0:
		who.may = AccessRoot
	case p.Admin() || p.In(s.GID):
		who.may = AccessAdmin
	case p.In(s.ReadGID):
		who.may = AccessRead
	default:
		return known{}, false
	}
	return who, true
}

// Serve answers requests on l until Close, and closes l. After Close it returns at once.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve API: %w", err)
	}
	return nil
}

// Close ends streams, lets short requests finish within ctx and stops. It is called once.
func (s *Server) Close(ctx context.Context) error {
	close(s.stopping)
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("stop API: %w", err), s.http.Close())
	}
	return nil
}

// Handler is the API as an http.Handler; authority comes from the
// connection's context, so a request without one is refused.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range Routes() {
		mux.HandleFunc(rt.Pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			err := s.authorize(rt.Access, r)
			if err == nil {
				err = s.recorded(rt, w, r)
			}
			if err != nil {
				s.fail(w, r, err)
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, api.Errorf(api.CodeNotFound, "there is no route %s %s", r.Method, api.Shorten(r.URL.Path, 200)))
	})
	return mux
}

// authorize decides by the credentials the kernel gave at connect; the
// socket's mode and group have let the peer in already.
func (s *Server) authorize(a Access, r *http.Request) error {
	who, ok := r.Context().Value(peerKey{}).(known)
	switch {
	case !ok:
		return api.Errorf(api.CodeForbidden, "the caller is unknown")
	case who.may >= a:
		return nil
	case a == AccessRoot:
		return api.Errorf(api.CodeForbidden, "%s %s is for root", r.Method, r.URL.Path)
	}
	return api.Errorf(api.CodeForbidden, "%s %s changes something, and user %d is in the group that may only read", r.Method, r.URL.Path, who.Uid).
		WithHint("be root or a member of the socket's group, which is polis")
}

// callerUID is the user the peer is.
func callerUID(r *http.Request) (uint32, error) {
	if who, ok := r.Context().Value(peerKey{}).(known); ok {
		return who.Uid, nil
	}
	return 0, api.Errorf(api.CodeForbidden, "the caller is unknown")
}

// caller names the peer in records.
func caller(r *http.Request) string {
	if who, ok := r.Context().Value(peerKey{}).(known); ok {
		return fmt.Sprintf("user:%d", who.Uid)
	}
	return "user:unknown"
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := api.AsError(err)
	if e.Code == api.CodeInternal {
		s.Log.Error("request failed", "op", r.Method+" "+r.URL.Path, "err", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Code.Status())
	s.encode(w, e)
}

func (s *Server) encode(w io.Writer, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.Log.Debug("client left", "err", err)
	}
}

func (s *Server) reply(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	s.encode(w, v)
	return nil
}

// read decodes a bounded body and refuses unknown fields and trailing text.
func read(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big):
		return api.Errorf(api.CodeTooLarge, "request body is over %d bytes", big.Limit)
	case err != nil:
		return api.Errorf(api.CodeBadRequest, "request body: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return api.Errorf(api.CodeBadRequest, "request body: there is text after the JSON object")
	}
	return nil
}
