package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lockedService answers 401 to every key but one.
type lockedService struct {
	*httptest.Server
	mu   sync.Mutex
	good string
	keys []string // that it got
}

func startLockedService(t *testing.T, good string) *lockedService {
	s := &lockedService{good: good}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Api-Key") + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		s.mu.Lock()
		s.keys = append(s.keys, key)
		ok := key == s.good
		s.mu.Unlock()
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"type":"message","usage":{"input_tokens":100,"output_tokens":20}}`)
	}))
	t.Cleanup(s.Close)
	return s
}

// turn changes the key that is good, and returns those that the service got before.
func (s *lockedService) turn(good string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.keys
	s.good, s.keys = good, nil
	return got
}

// TestAKeyThatWasRotatedIsRenewedWhenItIsRefused: without a reload, and without a failed request of an agent. A key
// that is refused once more is the agent's to see.
func TestAKeyThatWasRotatedIsRenewedWhenItIsRefused(t *testing.T) {
	needProgram(t, "curl")
	const thirdKey = "sk-third-Qe58sLw20Nvp"
	s := startLockedService(t, firstKey)
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		require.NoError(t, os.Chmod(d, 0o755))
	}
	file, printed, program := filepath.Join(dir, "file"), filepath.Join(dir, "printed"), filepath.Join(dir, "print-key")
	write := func(key string) {
		require.NoError(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
		require.NoError(t, os.WriteFile(printed, []byte(key+"\n"), 0o644))
	}
	write(firstKey)
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho run >>"+dir+"/runs\ncat "+printed+"\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "runs"), nil, 0o666))
	require.NoError(t, os.Chmod(filepath.Join(dir, "runs"), 0o666))
	d := startDaemon(t, options{config: fmt.Sprintf(`
[network]
egress = "none"
[models.filed]
kind = "anthropic"
url = %q
key_file = %q
[models.printed]
kind = "anthropic"
url = %[1]q
key_command = [%[3]q]
[services.api]
url = %[1]q
key_file = %[2]q
methods = ["GET", "POST"]
paths = ["/**"]
[roles.filed.gateway]
models = ["filed"]
services = ["api"]
[roles.printed.gateway]
models = ["printed"]
`, s.URL, file, program)})
	d.up()
	d.add("ana", "--role", "filed")
	d.add("bob", "--role", "filed")
	d.add("cay", "--role", "printed")
	printedAt := time.Now()
	status := func(agent, script string) string { return d.sh(agent, script+` -s -o /dev/null -w '%{http_code}'`) }
	ask := askModel + `'{"model":"good-1"}'`
	call := `curl -sS --max-time 60 "$POLIS_SERVICE_API/items" -d title=x`
	for _, agent := range []string{"ana", "bob", "cay"} {
		require.Equal(t, "200", status(agent, ask))
	}

	// The provider and the administrator replace the key; polisd gets no signal.
	write(secondKey)
	require.Equal(t, []string{firstKey, firstKey, firstKey}, s.turn(secondKey))
	require.Equal(t, "200", status("ana", ask), "the agent sees no refusal")
	require.Equal(t, []string{firstKey, secondKey}, s.turn(secondKey))
	d.eventually("the other agent has the key as well", func() bool {
		require.Equal(t, "200", status("bob", ask))
		return fmt.Sprint(s.turn(secondKey)) == fmt.Sprint([]string{secondKey})
	})
	require.Equal(t, "200", status("ana", call), "a service of [services] has it, too")
	require.Equal(t, []string{secondKey}, s.turn(secondKey))

	// A command runs again if the key that it printed is not new: after 30 seconds.
	time.Sleep(time.Until(printedAt.Add(31 * time.Second)))
	require.Equal(t, "200", status("cay", ask))
	require.Equal(t, []string{firstKey, secondKey}, s.turn(secondKey))
	require.Equal(t, "run\nrun\n", readFile(filepath.Join(dir, "runs")))

	// A key that nobody renewed: a refusal reaches the agent, each time, and it is no loop.
	s.turn(thirdKey)
	for range 3 {
		require.Equal(t, "401", status("ana", ask))
		require.Equal(t, []string{secondKey}, s.turn(thirdKey))
	}
	c := d.countsOf("ana")
	require.Equal(t, int64(5), c.Requests)
	require.Equal(t, int64(3), c.Errors)
	require.Equal(t, int64(240), c.Total())
	for _, key := range []string{firstKey, secondKey} {
		require.NotContains(t, d.keyOutside(key), "x")
		require.NotContains(t, d.log(), key)
	}
}
