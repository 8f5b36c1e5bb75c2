package dial

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// These types are the requests of shims of version 1, which refuse unknown fields. They are a
// record and must never change.
type (
	v1Start struct {
		Command []string `json:"command"`
		Env     []string `json:"env"`
		TTY     bool     `json:"tty"`
		Banner  string   `json:"banner"`
	}
	v1Stop struct {
		Grace string `json:"grace"`
	}
	v1Port struct {
		Internal int    `json:"internal"`
		External int    `json:"external"`
		Bind     string `json:"bind"`
		Auto     bool   `json:"auto"`
	}
)

// v1 answers as a shim of version 1 does, from a record of one (testdata/v1), and keeps the
// requests.
func v1(t *testing.T) (socket string, got map[string]any) {
	got = map[string]any{}
	strict := func(v any, w http.ResponseWriter, r *http.Request) {
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(v); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(api.Errorf(api.CodeBadRequest, "request body: %w", err)) //nolint:errcheck // a test
			return
		}
		got[r.URL.Path] = v
		_, _ = io.WriteString(w, "{}\n") //nolint:errcheck // a test
	}
	record := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.ServeFile(w, r, filepath.Join("testdata", "v1", name))
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", record("status.json"))
	mux.HandleFunc("GET /v1/why", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"why":[]}`) }) //nolint:errcheck // a test
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		got["since"] = r.URL.Query().Get("since")
		record("events.jsonl")(w, r)
	})
	mux.HandleFunc("POST /v1/start", func(w http.ResponseWriter, r *http.Request) { strict(&v1Start{}, w, r) })
	mux.HandleFunc("POST /v1/stop", func(w http.ResponseWriter, r *http.Request) { strict(&v1Stop{}, w, r) })
	mux.HandleFunc("POST /v1/ports", func(w http.ResponseWriter, r *http.Request) { strict(&v1Port{}, w, r) })
	mux.HandleFunc("DELETE /v1/ports/{port}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}\n") }) //nolint:errcheck // a test
	mux.HandleFunc("POST /v1/invalidate", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}\n") })     //nolint:errcheck // a test
	dir, err := os.MkdirTemp("", "v1-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	socket = filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return socket, got
}

// TestAShimOfVersion1 sends a shim of version 1 every request that the daemon sends shims.
func TestAShimOfVersion1(t *testing.T) {
	socket, got := v1(t)
	sh := New(socket)
	defer sh.Close()
	ctx := t.Context()

	st, err := sh.Status(ctx)
	require.NoError(t, err)
	v, err := wire.Agree(st)
	require.NoError(t, err)
	require.Equal(t, 1, v)
	require.Equal(t, "alice", st.Agent)
	require.Equal(t, []string{"refs/heads/made-before"}, st.OwnedRefs)
	require.Len(t, st.Ports, 2)
	require.True(t, st.Ports[1].Auto)
	require.Empty(t, st.Listening, "it does not report them")

	require.NoError(t, sh.Start(ctx, wire.StartRequest{Command: []string{"sh"}, Env: []string{"A=b"}, TTY: true, Banner: "---\n"}))
	require.Equal(t, &v1Start{Command: []string{"sh"}, Env: []string{"A=b"}, TTY: true, Banner: "---\n"}, got["/v1/start"])
	require.NoError(t, sh.StopMain(ctx, 2*time.Second))
	require.Equal(t, &v1Stop{Grace: "2s"}, got["/v1/stop"])
	require.NoError(t, sh.AddPort(ctx, wire.PortRequest{Internal: 1, External: 3001, Bind: "127.0.0.1", Auto: true}))
	require.Equal(t, &v1Port{Internal: 1, External: 3001, Bind: "127.0.0.1", Auto: true}, got["/v1/ports"])
	require.NoError(t, sh.RemovePort(ctx, "tcp", 1))
	_, err = sh.Why(ctx)
	require.NoError(t, err)
	require.NoError(t, sh.Invalidate(ctx))

	var events []api.Event
	ectx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	require.ErrorIs(t, sh.Events(ectx, 42, func(e api.Event) { events = append(events, e) }), io.EOF)
	require.Equal(t, "42", got["since"])
	require.Len(t, events, 3)
	require.Equal(t, st.LastEvent, events[2].ID)
	require.Equal(t, "shim:listen", events[0].Type)
	require.Equal(t, float64(3000), events[0].Data["port"])
	require.Equal(t, "refs/heads/made-before", events[2].Data["ref"])
}
