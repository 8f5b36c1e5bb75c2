package server

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/store/layout"
)

// TestALogIsGoneOnWith: however the log grows and is rotated between two reads, a client that
// continues at the position behind the last byte gets every byte once, or is notified that some
// are missing.
func TestALogIsGoneOnWith(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(base, strconv.Itoa(n))
		require.NoError(t, os.Mkdir(dir, 0o700))
		p := filepath.Join(dir, "output.log")
		all, kept, from := "", 0, int64(-1) // kept: where the older file begins
		newer := 0
		begin := func() {
			require.NoError(t, os.WriteFile(p, nil, 0o600))
			require.NoError(t, unix.Setxattr(p, layout.LogBase, []byte(strconv.Itoa(len(all))), 0))
		}
		look := func() {
			l, err := openLog(p)
			require.NoError(t, err)
			defer l.close()
			there := true
			if from < 0 {
				require.NoError(t, l.last(maxLines))
			} else {
				there = l.skipTo(from)
				require.Equal(t, from >= int64(kept), there, "from %d", from)
			}
			want := all[kept:]
			if there && from >= 0 {
				want = all[from:]
			}
			at, known := l.position()
			require.True(t, known)
			require.Equal(t, int64(len(all)-len(want)), at)
			var b strings.Builder
			f, err := l.send(&b)
			require.NoError(t, err)
			closeFile(f)
			require.Equal(t, want, b.String())
			from = at + int64(b.Len())
		}
		begin()
		for i := range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				require.NoError(t, os.Rename(p, p+".1"))
				kept, newer = newer, len(all)
				begin()
			case 1:
				look()
			default:
				line := fmt.Sprintf("line %d\n", i)
				f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
				require.NoError(t, err)
				_, err = f.WriteString(line)
				require.NoError(t, err)
				require.NoError(t, f.Close())
				all += line
			}
		}
		look()
	})
}

func TestPositionsOfALogAreChecked(t *testing.T) {
	dir := t.TempDir()
	p := filepath.Join(dir, "output.log")
	c := serve(t, streaming{dir: dir})
	get := func(q string) (*http.Response, string) {
		resp, err := c.Get("http://polis/v1/agents/a1/logs?" + q)
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp, string(b)
	}
	for _, bad := range []string{"x", ":", "-1", "1.5", "99999999999999999999"} {
		resp, body := get("from=" + bad)
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, bad)
		require.Contains(t, body, "from")
	}
	resp, body := get("lines=5")
	require.Empty(t, body)
	require.Equal(t, "0", resp.Header.Get(api.HeaderLogPosition))
	require.NoError(t, os.WriteFile(p, []byte("1\n2\n3\n"), 0o600))
	resp, body = get("from=2")
	require.Equal(t, "2\n3\n", body)
	require.Empty(t, resp.Header.Get(api.HeaderLogMissed))
	require.Equal(t, "2", resp.Header.Get(api.HeaderLogPosition))
	resp, body = get("from=7")
	require.Equal(t, "1\n2\n3\n", body)
	require.NotEmpty(t, resp.Header.Get(api.HeaderLogMissed))
	// A log that an older shim has rotated: it is unknown how much came before.
	require.NoError(t, os.Rename(p, p+".1"))
	require.NoError(t, os.WriteFile(p, []byte("4\n"), 0o600))
	resp, body = get("from=2")
	require.Equal(t, "1\n2\n3\n4\n", body)
	require.NotEmpty(t, resp.Header.Get(api.HeaderLogMissed))
	require.Empty(t, resp.Header.Get(api.HeaderLogPosition))
}
