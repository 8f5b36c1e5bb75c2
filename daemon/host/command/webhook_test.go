package command

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyTargetsOnThisMachine(t *testing.T) {
	for s, good := range map[string]bool{
		"":                                  true,
		"http://127.0.0.1:9000/alerts":      true,
		"http://127.8.8.8:1":                true,
		"http://[::1]:9000/":                true,
		"unix:/run/alerts.sock":             true,
		"http://localhost:9000/":            false,
		"http://192.0.2.1:9000/":            false,
		"http://127.0.0.1/":                 false,
		"http://127.0.0.1:0/":               false,
		"http://[::ffff:192.0.2.1]:80":      false,
		"https://127.0.0.1:9000/":           false,
		"http://u:p@127.0.0.1:9000/":        false,
		"http://127.0.0.1:9000/#x":          false,
		"unix:run/alerts.sock":              false,
		"unix:/run/../alerts.sock":          false,
		"unix:/" + strings.Repeat("x", 107): false,
		"http://127.0.0.1:9000/" + strings.Repeat("x", maxTarget): false,
		"://": false,
	} {
		got, err := ParseWebhook(s)
		require.Equal(t, good, err == nil, "%s: %v", s, err)
		require.Equal(t, good && s != "", got.Set(), s)
	}
}

func TestPost(t *testing.T) {
	var got string
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
		case "/refuse":
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, "no")
		case "/much":
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		default:
			b, _ := io.ReadAll(r.Body)
			got = r.Method + " " + r.Header.Get("Content-Type") + " " + string(b)
			_, _ = io.WriteString(w, "thanks\n")
		}
	})
	srv := httptest.NewServer(h)
	defer srv.Close()
	post := func(url string) (string, error) {
		target, err := ParseWebhook(url)
		require.NoError(t, err)
		return target.Post(t.Context(), []byte(`{"a":1}`))
	}
	answer, err := post(srv.URL + "/alerts")
	require.NoError(t, err)
	require.Equal(t, "thanks", answer)
	require.Equal(t, `POST application/json {"a":1}`, got)

	answer, err = post(srv.URL + "/refuse")
	require.ErrorContains(t, err, "418")
	require.Equal(t, "no", answer)
	got = ""
	_, err = post(srv.URL + "/redirect")
	require.ErrorContains(t, err, "307")
	require.Empty(t, got, "it is not followed")
	answer, err = post(srv.URL + "/much")
	require.NoError(t, err)
	require.Len(t, answer, maxAnswer)
	srv.Close()
	_, err = post(srv.URL)
	require.ErrorContains(t, err, "refused")

	dir, err := os.MkdirTemp("", "polis-hook-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	sock := filepath.Join(dir, "s")
	l, err := net.Listen("unix", sock)
	require.NoError(t, err)
	us := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	us.Start()
	defer us.Close()
	answer, err = post("unix:" + sock)
	require.NoError(t, err)
	require.Equal(t, "thanks", answer)
}
