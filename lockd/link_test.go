package lockd

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestASlowPeerGetsEverything however long it takes in all; one that stands still is disconnected.
func TestASlowPeerGetsEverything(t *testing.T) {
	for name, slow := range map[string]time.Duration{"slow": sendTimeout / 20, "standing still": 2 * sendTimeout} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				l := newLink(near, "peer")
				sent := 0
				for range 100 {
					m := &message{Type: msgReclaim, Keys: []wireKey{{Path: strings.Repeat("x", maxFrame/20)}}}
					b, err := appendFrame(nil, m)
					require.NoError(t, err)
					sent += len(b)
					l.put(m)
				}
				require.Greater(t, sent, 60*sendPart)
				got := make(chan int)
				go func() {
					n, b := 0, make([]byte, sendPart)
					for {
						time.Sleep(slow)
						k, err := io.ReadFull(far, b)
						n += k
						if err != nil {
							got <- n
							return
						}
					}
				}()
				began := time.Now()
				l.flush()
				if slow > sendTimeout {
					require.ErrorIs(t, l.cause(), os.ErrDeadlineExceeded)
					require.Equal(t, sendTimeout, time.Since(began))
				} else {
					require.NoError(t, l.cause())
					require.Greater(t, time.Since(began), sendTimeout)
				}
				l.shut(ErrClosed)
				if n := <-got; slow < sendTimeout {
					require.Equal(t, sent, n)
				}
			})
		})
	}
}
