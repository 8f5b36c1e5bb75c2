package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// limitedService answers one request each second, and others with 429 and Retry-After.
type limitedService struct {
	*httptest.Server
	mu      sync.Mutex
	next    time.Time            // when a request is answered again
	early   int                  // requests while it has asked to wait
	asked   bool                 // it has refused one since the last that it answered
	tries   map[string]int       // by agent
	answers map[string]int       // by agent
	refused map[string]time.Time // when an agent was last refused
	waits   bool                 // bob was refused, and not answered since
	passed  int                  // how often ana was answered since bob's first try
}

func startLimitedService(t *testing.T) *limitedService {
	s := &limitedService{tries: map[string]int{}, answers: map[string]int{}, refused: map[string]time.Time{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		name := "bob"
		if strings.Contains(string(b), "ana-") {
			name = "ana"
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		now := time.Now()
		s.tries[name]++
		if name == "bob" && !s.waits {
			s.waits, s.passed = true, 0
		}
		if wait := s.next.Sub(now); wait > 0 {
			if now.Sub(s.refused["all"]) > 300*time.Millisecond && s.asked { // all gateways know of it
				s.early++
			}
			if !s.asked {
				s.refused["all"] = now
			}
			s.asked = true
			w.Header().Set("Retry-After", fmt.Sprintf("%.3f", wait.Seconds()))
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		s.next, s.asked = now.Add(time.Second), false
		s.answers[name]++
		if name == "bob" {
			s.waits = false
		} else {
			s.passed++
		}
		fmt.Fprint(w, `{"type":"message","usage":{"input_tokens":1,"output_tokens":1}}`)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *limitedService) count(of map[string]int, agent string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return of[agent]
}

// TestAgentsShareTheRateOfAService: one agent with 20 requests that are tried again at once does not keep
// another one with a single request from the service.
func TestAgentsShareTheRateOfAService(t *testing.T) {
	needProgram(t, "curl")
	s := startLimitedService(t)
	d := startDaemon(t, options{config: "[models.claude]\nkind = \"anthropic\"\nurl = \"" + s.URL + "\"\n[gateway]\nmodels = [\"claude\"]\n"})
	d.up()
	d.worker("ana")
	d.worker("bob")
	d.must("agents", "run", "ana", `for i in $(seq 20); do (while :; do curl -s --max-time 120 -o /dev/null "$ANTHROPIC_BASE_URL/v1/messages" -d '{"model":"ana-1"}' || sleep 1; done) & done; wait`)
	d.eventually("ana is limited", func() bool { return s.count(s.tries, "ana") > 20 && s.count(s.answers, "ana") >= 2 })
	for range 3 {
		out := d.sh("bob", `for i in 1 2 3; do curl -s --max-time 120 -o /dev/null -w '%{http_code} ' "$ANTHROPIC_BASE_URL/v1/messages" -d '{"model":"bob-1"}' | tee out; grep -q 200 out && break; done`)
		require.Contains(t, out, "200 ", "bob is answered within three tries; ana has 20 at any time")
		s.mu.Lock()
		passed := s.passed
		s.mu.Unlock()
		require.LessOrEqual(t, passed, 3, "answers to ana from bob's first try to its answer")
	}
	// Nor does bob keep ana from it.
	before := s.count(s.answers, "ana")
	d.eventually("ana continues", func() bool { return s.count(s.answers, "ana") >= before+2 })
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("tries %v, answers %v, %d came while the service had asked to wait", s.tries, s.answers, s.early)
	require.LessOrEqual(t, s.early, 5, "Retry-After is honoured by the gateway, whatever the programs do")
}
