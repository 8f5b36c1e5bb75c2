package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/lockd"
)

// insideAPI is what the agent may ask: files and a socket in /run/polis of
// the sandbox. None of its routes is in the daemon's table, and none reaches beyond the agent.
type insideAPI struct {
	dir    string
	server *http.Server
	dirty  chan struct{}

	mu   sync.Mutex
	held map[string]*lockd.Ticket // explicit locks
}

// maxExplicit bounds the locks an agent may hold by asking for them.
const maxExplicit = 256

// boxDir is the host directory that the sandbox sees as /run/polis.
func (s *Shim) boxDir() string { return s.path("inside") }

func (s *Shim) openInside() error {
	dir := s.boxDir()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	s.onClose("files of the sandbox", func(context.Context) error { return os.RemoveAll(dir) })
	in := &insideAPI{dir: dir, dirty: make(chan struct{}, 1), held: map[string]*lockd.Ticket{}}
	s.inside = in
	pol, err := json.MarshalIndent(s.Spec.Policy, "", "  ")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"policy": string(pol) + "\n", "why": "nothing was refused yet\n", "why.json": "[]\n"} {
		if err := replaceFile(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	if err := s.openBin(); err != nil {
		return err
	}
	sock := filepath.Join(dir, "api.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: sock, Net: "unix"})
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chown(sock, s.Spec.UID, s.Spec.GID), os.Chmod(sock, 0o600)); err != nil {
		return errors.Join(err, l.Close())
	}
	in.server = &http.Server{Handler: s.insideRoutes(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	s.onClose("api of the sandbox", func(context.Context) error { return in.server.Close() })
	s.group.Go(func() error {
		if err := in.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("api of the sandbox: %w", err)
		}
		return nil
	})
	s.group.Go(func() error { s.keepFiles(); return nil })
	return nil
}

func (s *Shim) insideRoutes() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]handler{
		"GET /v1/why": func(w http.ResponseWriter, _ *http.Request) error {
			return writeJSON(w, map[string]any{"why": s.why()})
		},
		"GET /v1/status": func(w http.ResponseWriter, _ *http.Request) error {
			return writeJSON(w, map[string]any{"agent": s.Spec.Agent, "branch": s.Spec.Branch, "policy": s.Spec.Policy, "counters": s.views.counters()})
		},
		"POST /v1/lock":   s.insideLock,
		"POST /v1/unlock": s.insideUnlock,
	} {
		mux.Handle(pattern, serveHTTP(h))
	}
	return mux
}

// insideLock takes a lock in the agent's name until it gives it back.
func (s *Shim) insideLock(w http.ResponseWriter, r *http.Request) error {
	p, err := insidePath(r)
	if err != nil {
		return err
	}
	in := s.inside
	in.mu.Lock()
	n, have := len(in.held), in.held[p] != nil
	in.mu.Unlock()
	if have {
		return writeJSON(w, map[string]string{"path": p, "holder": s.Spec.Agent})
	}
	if n >= maxExplicit {
		return api.Errorf(api.CodeQuota, "agent %s holds %d locks: at most %d", s.Spec.Agent, n, maxExplicit)
	}
	t, err := s.views.locks.Acquire(r.Context(), lockd.Request{Paths: []string{lockd.FileKey(p)}, Op: "lock", Mode: lockd.Write})
	var ce *lockd.ConflictError
	if errors.As(err, &ce) {
		return api.Errorf(api.CodeFileLocked, "%s is locked by %s since %s", p, ce.Holder, ce.Since.Format(time.RFC3339)).With("holder", ce.Holder)
	}
	if err != nil {
		return api.Errorf(api.CodeLockdUnavailable, "lock %s: %w", p, err)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.held[p] != nil {
		t.Done()
	} else {
		in.held[p] = t
	}
	return writeJSON(w, map[string]string{"path": p, "holder": s.Spec.Agent})
}

func (s *Shim) insideUnlock(w http.ResponseWriter, r *http.Request) error {
	p, err := insidePath(r)
	if err != nil {
		return err
	}
	s.inside.mu.Lock()
	t := s.inside.held[p]
	delete(s.inside.held, p)
	s.inside.mu.Unlock()
	if t == nil {
		return api.Errorf(api.CodeNotLocked, "agent %s did not lock %s", s.Spec.Agent, p)
	}
	t.Done()
	s.views.locks.Release(lockd.FileKey(p))
	return writeJSON(w, struct{}{})
}

func insidePath(r *http.Request) (string, error) {
	var req struct {
		Path string `json:"path"`
	}
	if err := readJSON(r, &req); err != nil {
		return "", err
	}
	if req.Path == "" || len(req.Path) > 4096 || strings.ContainsRune(req.Path, 0) || !filepath.IsLocal(req.Path) || filepath.Clean(req.Path) == "." {
		return "", api.Errorf(api.CodePathTraversal, "path = %q: must be a path inside the repository", api.Shorten(req.Path, 200))
	}
	return filepath.Clean(req.Path), nil
}

// touch says that the files are behind; it never blocks.
func (in *insideAPI) touch() {
	if in == nil {
		return
	}
	select {
	case in.dirty <- struct{}{}:
	default:
	}
}

// keepFiles rewrites why after refusals. A process that was refused finds
// the reason there a moment later.
func (s *Shim) keepFiles() {
	for {
		select {
		case <-s.inside.dirty:
		case <-s.ctx.Done():
			return
		}
		text, js := s.views.whyFiles()
		if err := errors.Join(replaceFile(filepath.Join(s.inside.dir, "why"), text), replaceFile(filepath.Join(s.inside.dir, "why.json"), js)); err != nil {
			s.Log.Error("write why", "err", err)
		}
		// Many refusals in a row are one rewrite.
		select {
		case <-time.After(10 * time.Millisecond):
		case <-s.ctx.Done():
			return
		}
	}
}

// replaceFile puts text in place at once; readers see the old or the new.
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
