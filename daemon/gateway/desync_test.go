package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/wire"
)

// TestNoRequestGetsAnAnswerThatCameBeforeIt: a service that sends a second answer in the packet of the first one
// loses the connection, however soon the next request follows. Package net/http looks for such an answer in a
// goroutine of its own, and takes it for that of the next request when that one is sooner.
func TestNoRequestGetsAnAnswerThatCameBeforeIt(t *testing.T) {
	const body = "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"
	for name, first := range map[string]string{
		"with content":    fmt.Sprintf(body, 2, "{}"),
		"without content": "HTTP/1.1 304 Not Modified\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newRawService(t)
			s.always(func(w io.Writer) { _, _ = io.WriteString(w, first+fmt.Sprintf(body, 8, "poisoned")) })
			at, err := url.Parse("http://" + s.Addr().String())
			require.NoError(t, err)
			u := newUpstream(at, wire.Proxy{}, nil)
			t.Cleanup(u.transport.CloseIdleConnections)
			for range 3000 {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at.String(), strings.NewReader("{}"))
				require.NoError(t, err)
				resp, err := u.send(r)
				require.NoError(t, err)
				b, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.NotContains(t, string(b), "poisoned")
			}
		})
	}
}
