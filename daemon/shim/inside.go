package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"polis/daemon/host/relisten"
	"polis/daemon/store/layout"
	"polis/fusefs/fdtree"
)

// insideAPI is the API for the agent: files and a socket in /run/polis of the sandbox. Its routes
// are separate from the daemon's, and concern only this agent.
type insideAPI struct {
	dir    string
	server *http.Server
	dirty  chan struct{}
	mu     sync.Mutex    // while why is written
	writes *rate.Limiter // of why by refusals
	locks  chan struct{} // the file of locks is outdated
	// remotes holds a token for each exchange with a remote.
	remotes chan struct{}
	// workers holds a token for each request about workers.
	workers chan struct{}
	// timeline bounds what the agent does with its checkpoints.
	timeline timelineLimits
	// said holds a token for each request about what was said.
	said chan struct{}
	// objects holds a token while git gets objects that it misses.
	objects chan struct{}
}

// insideDir is the host directory that the sandbox sees as /run/polis.
func (s *Shim) insideDir() string { return layout.InsideDir(s.Spec.RunDir) }

func (s *Shim) openInside() error {
	dir := s.insideDir()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	s.onClose("files of the sandbox", func(ctx context.Context) error { return fdtree.RemoveAll(ctx, dir) })
	in := &insideAPI{dir: dir, dirty: make(chan struct{}, 1), writes: rate.NewLimiter(rate.Every(whyPause), whyBurst), locks: make(chan struct{}, 1), remotes: make(chan struct{}, maxRemotes), workers: make(chan struct{}, maxWorkerCalls), objects: make(chan struct{}, 2), said: make(chan struct{}, maxSaidCalls), timeline: newTimelineLimits()}
	s.inside = in
	if err := s.writePolicy(s.rules(s.Spec.Settings)); err != nil {
		return err
	}
	for name, text := range map[string]string{"why": "nothing was refused yet\n", "why.json": "[]\n",
		"locks": noLocks, "locks.json": "{\"locks\":[],\"total\":0}\n"} {
		if err := replaceFile(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	if err := s.openBin(); err != nil {
		return err
	}
	if err := errors.Join(s.openGitConfig(), s.openGitHooks()); err != nil {
		return err
	}
	if err := s.openRemote(); err != nil {
		return err
	}
	sock := layout.InsideSocket(s.Spec.RunDir)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: sock, Net: "unix"})
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chown(sock, s.Spec.UID, s.Spec.GID), os.Chmod(sock, 0o600)); err != nil {
		return errors.Join(err, l.Close())
	}
	kept, err := s.keep(l, sock, relisten.Options{UID: s.Spec.UID, GID: s.Spec.GID, Mode: 0o600, Fixed: true})
	if err != nil {
		return err
	}
	in.server = s.insideServer()
	s.onClose("api of the sandbox", func(context.Context) error { return in.server.Close() })
	s.group.Go(func() error {
		if err := in.server.Serve(insideListener{kept}); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("api of the sandbox: %w", err)
		}
		return nil
	})
	s.group.Go(func() error { s.keepFiles(); return nil })
	s.group.Go(func() error { s.watchLate(); return nil })
	return nil
}

func (s *Shim) insideServer() *http.Server {
	mux := http.NewServeMux()
	for _, routes := range []map[string]handler{s.insideRoutes(), s.messageRoutes()} {
		for pattern, h := range routes {
			mux.Handle(pattern, serveHTTP(wholeBody(h)))
		}
	}
	return s.serverOf(mux)
}

func (s *Shim) serverOf(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ConnContext: s.insideContext, ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: bodyTime, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ConnState: atMost(maxInside)}
}

func (s *Shim) insideRoutes() map[string]handler {
	return map[string]handler{
		"GET /v1/why": func(w http.ResponseWriter, _ *http.Request) error {
			return writeJSON(w, map[string]any{"why": s.why()})
		},
		"GET /v1/status": func(w http.ResponseWriter, _ *http.Request) error {
			return writeJSON(w, s.insideStatus())
		},
		"GET /v1/held":      s.insideHeld,
		"POST /v1/remote":   s.insideRemote,
		"POST /v1/workers":  s.insideWorkers,
		"POST /v1/said":     s.insideSaid,
		"POST /v1/timeline": s.insideTimeline,
		"POST /v1/lock":     s.insideLock,
		"POST /v1/unlock":   s.insideUnlock,
		"POST /v1/wait":     s.insideWait,
		"POST /v1/done":     s.insideDone,
	}
}

// messageRoutes are those of the messages of seed 003.
func (s *Shim) messageRoutes() map[string]handler {
	return map[string]handler{
		"POST /v1/permission_request": s.insidePermission,
		"POST /v1/tool_done":          s.insideToolDone,
		"POST /v1/status_update":      s.insideStatusUpdate,
		"POST /v1/task_complete":      s.insideComplete,
	}
}

// touch marks the files as outdated; it never blocks.
func (in *insideAPI) touch() {
	if in == nil {
		return
	}
	select {
	case in.dirty <- struct{}{}:
	default:
	}
}

const (
	// whyPause is the time between two versions of why in a storm of refusals.
	whyPause = 10 * time.Millisecond
	// whyStorm is the time between two versions while the storm lasts.
	whyStorm = 100 * time.Millisecond
	// whyBurst is how many refusals in quick succession get their version at once.
	whyBurst = 20
)

// updateWhy rewrites why after a refusal. It does so before the refused process gets its error,
// because the process may read why at once. In a storm of refusals it defers the update to
// keepFiles.
func (s *Shim) updateWhy() {
	in := s.inside
	if in == nil {
		return
	}
	if !in.writes.Allow() {
		in.touch()
		return
	}
	in.mu.Lock()
	s.writeWhy()
	in.mu.Unlock()
}

// writeWhy makes the two files. mu is held.
func (s *Shim) writeWhy() {
	text, js := s.views.whyFiles()
	if err := errors.Join(replaceFile(filepath.Join(s.inside.dir, "why"), text), replaceFile(filepath.Join(s.inside.dir, "why.json"), js)); err != nil {
		s.Log.Error("why not written", "err", err)
	}
}

// keepFiles rewrites why after refusals that updateWhy deferred.
func (s *Shim) keepFiles() {
	var last time.Time
	for {
		select {
		case <-s.inside.dirty:
		case <-s.ctx.Done():
			return
		}
		pause := whyPause
		if time.Since(last) < 2*whyStorm {
			pause = whyStorm
		}
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return
		}
		last = time.Now()
		s.inside.mu.Lock()
		s.writeWhy()
		s.inside.mu.Unlock()
	}
}

// replaceFile replaces a file atomically; readers see the old or the new.
func replaceFile(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	err = errors.Join(err, f.Chmod(0o444), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(f.Name()))
	}
	return nil
}
