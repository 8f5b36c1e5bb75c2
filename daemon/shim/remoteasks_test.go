package shim

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestOnlyARefusalWithAQuestionIsOne(t *testing.T) {
	q := questionOf([]byte(`{"code":"NOT_APPROVED","message":"m","details":{"question":{"text":"push origin x","key":"k"}}}`))
	require.Equal(t, &api.RemoteQuestion{Text: "push origin x", Key: "k"}, q)
	for _, text := range []string{"", "x", "null", "[]", `{"code":"FORBIDDEN","details":{"question":{"text":"t","key":"k"}}}`,
		`{"code":"NOT_APPROVED"}`, `{"code":"NOT_APPROVED","details":{"question":{"text":"t"}}}`, `{"code":"NOT_APPROVED","details":{"question":7}}`} {
		require.Nil(t, questionOf([]byte(text)), text)
	}
}

func FuzzQuestionOf(f *testing.F) {
	f.Add([]byte(`{"code":"NOT_APPROVED","details":{"question":{"text":"t","key":"k"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if q := questionOf(text); q != nil {
			require.NotEmpty(t, q.Key)
		}
	})
}

// TestAResponseContinuesAsItBegan: once the agent has read that it waits, every outcome is a line.
func TestAResponseContinuesAsItBegan(t *testing.T) {
	reply := func(status int, kind, body string) remoteReply {
		return remoteReply{Response: &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}}
	}
	plain := httptest.NewRecorder()
	require.NoError(t, (&remoteStream{w: plain}).copy(reply(http.StatusForbidden, "application/json", `{"code":"FORBIDDEN"}`)))
	require.Equal(t, http.StatusForbidden, plain.Code)
	require.Equal(t, `{"code":"FORBIDDEN"}`, plain.Body.String())
	failed := api.Errorf(api.CodeQuota, "full")
	require.ErrorIs(t, (&remoteStream{w: httptest.NewRecorder()}).fail(failed), failed)

	for name, tc := range map[string]struct {
		end  func(*remoteStream) error
		want string
	}{
		"lines": {func(s *remoteStream) error { return s.copy(reply(200, mimeLines, "{\"result\":{}}\n")) }, `{"result":{}}`},
		"an error": {func(s *remoteStream) error {
			return s.copy(reply(403, "application/json", `{"code":"FORBIDDEN","message":"m"}`))
		}, `{"error":{"code":"FORBIDDEN","message":"m"}}`},
		"nonsense": {func(s *remoteStream) error { return s.copy(reply(502, "text/html", "<html>")) }, `"code":"UNAVAILABLE"`},
		"a denial": {func(s *remoteStream) error { return s.fail(failed) }, `"code":"QUOTA"`},
	} {
		w := httptest.NewRecorder()
		s := &remoteStream{w: w}
		s.line(map[string]any{"progress": "it waits"})
		require.NoError(t, tc.end(s), name)
		lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
		require.Len(t, lines, 2, name)
		require.Equal(t, `{"progress":"it waits"}`, lines[0], name)
		require.Contains(t, lines[1], tc.want, name)
		require.Equal(t, mimeLines, w.Header().Get("Content-Type"), name)
	}
}
