package shim

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// However often an agent makes its shim say the same, little is written, what
// others say is not pushed out, and the number is not lost.
func TestAMessageIsLoggedAtABoundedRate(t *testing.T) {
	now := time.Unix(1000, 0)
	var b bytes.Buffer
	log := slog.New(&quietHandler{next: slog.NewTextHandler(&b, nil), rates: &rates{now: func() time.Time { return now }, kinds: map[string]*kind{}}}).With("agent", "a")
	for range 100_000 {
		log.Warn("content of the package store is not shared", "path", strings.Repeat("p", 100))
	}
	log.Error("something else")
	require.Equal(t, logBurst+1, strings.Count(b.String(), "\n"))
	require.Contains(t, b.String(), "something else")
	now = now.Add(logEvery)
	b.Reset()
	log.Warn("content of the package store is not shared", "path", "last")
	require.Contains(t, b.String(), "left_out=99980")
	require.Contains(t, b.String(), "agent=a")
	now = now.Add(time.Hour)
	b.Reset()
	for range 100 {
		log.Warn("content of the package store is not shared")
	}
	require.Equal(t, logBurst, strings.Count(b.String(), "\n"))
}

// shim.log is renamed when it is large, and what others write to the descriptor
// goes to the new one.
func TestShimLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shim.log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer f.Close()
	l := &shimLog{path: path, fd: int(f.Fd())}
	line := bytes.Repeat([]byte("x"), 64<<10)
	for range 3 * maxShimLog / len(line) {
		l.looked = time.Time{}
		n, err := l.Write(line)
		require.NoError(t, err)
		require.Equal(t, len(line), n)
	}
	for _, p := range []string{path, path + ".1"} {
		st, err := os.Stat(p)
		require.NoError(t, err)
		require.LessOrEqual(t, st.Size(), int64(maxShimLog+len(line)), p)
	}
	_, err = unix.Write(l.fd, []byte("a panic"))
	require.NoError(t, err)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.HasSuffix(b, []byte("a panic")))

	// No other file is renamed.
	other := &shimLog{path: path + ".other", fd: l.fd}
	require.NoError(t, other.rotate())
	require.NoFileExists(t, path+".other.1")
}
