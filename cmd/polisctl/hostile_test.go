package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
)

// hostileText has what a terminal acts on, or shows in another place than it stands: C1 controls, an escape
// sequence, overrides of the direction, an invisible tag, and the end of a line in Unicode.
const hostileText = "x\u009b2Jy\u009d0;t\u009c\x1b]0;t\x07z\x7f\u202eabc\u2066d\u2028e\U000e0041f\u200f"

// structural are the keys of answers whose values polisctl looks up, and that agents cannot choose freely.
var structural = []string{"name", "agent", "id", "workspace", "status", "state", "kind", "code", "type", "base_type", "holder", "head", "log", "verdict", "outcome", "time", "isolation_mode", "task"}

// spoiled returns an answer of polisd with hostile text at the end of each text in it.
func spoiled(v any, key string) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = spoiled(v[k], k)
		}
	case []any:
		for i := range v {
			v[i] = spoiled(v[i], key)
		}
	case string:
		if _, err := time.Parse(time.RFC3339, v); err != nil && v != "" && !slices.Contains(structural, key) {
			return v + hostileText
		}
	}
	return v
}

// spoiler spoils the answers of a handler: JSON by its values, anything else by text after it.
type spoiler struct {
	http.ResponseWriter
}

func (s spoiler) Write(p []byte) (int, error) {
	var out bytes.Buffer
	for line := range bytes.Lines(p) {
		var v any
		if json.Unmarshal(line, &v) == nil {
			b, err := json.Marshal(spoiled(v, ""))
			if err != nil {
				return 0, err
			}
			out.Write(append(b, '\n'))
			continue
		}
		out.Write(line)
		if s.Header().Get("Content-Type") != "application/x-tar" {
			out.WriteString(hostileText)
		}
	}
	_, err := s.ResponseWriter.Write(out.Bytes())
	return len(p), err
}

func (s spoiler) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// commandsOfStories returns the first use of each command in the stories, and one with each of its flags.
func commandsOfStories(t *testing.T) [][]string {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	line, word := regexp.MustCompile(`^!? ?(?:exec|exits \d+) polisctl (.*)$`), regexp.MustCompile(`'[^']*'|\S+`)
	seen := map[string]bool{}
	var out [][]string
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		for l := range strings.Lines(string(b)) {
			m := line.FindStringSubmatch(strings.TrimSpace(l))
			if m == nil || strings.Contains(m[1], "$") || regexp.MustCompile(`\b(exec|attach|shell|sh|tui|__complete|help|completion|version)\b`).MatchString(m[1]) {
				continue
			}
			var args []string
			for _, w := range word.FindAllString(m[1], -1) {
				args = append(args, strings.Trim(w, "'"))
			}
			var flags []string
			for _, a := range args {
				if strings.HasPrefix(a, "-") {
					flags = append(flags, a)
				}
			}
			key := strings.Join(append(slices.Clone(args[:min(2, len(args))]), flags...), " ")
			if !seen[key] {
				seen[key] = true
				out = append(out, args)
			}
		}
	}
	require.Greater(t, len(out), 150)
	return out
}

// ownSequences are colours, movements of the cursor, and the bell with a notification of a question.
var ownSequences = regexp.MustCompile("\a\x1b\\]9;polis: agent [ -~]* asks: [ -~]*\x1b\\\\|\x1b\\[[0-9;:]*m|\x1b\\[[HJK]|\x1b\\[[0-9;]*[HJK]")

// TestNothingOfAnAgentsActsOnTheTerminal: whatever polisd answers, a terminal gets printable characters, and the
// sequences of polisctl itself.
func TestNothingOfAnAgentsActsOnTheTerminal(t *testing.T) {
	f := newFake(t)
	hostile := &fake{dir: f.dir, socket: filepath.Join(f.dir, "h.sock")}
	real := f.routes()
	serve(t, hostile.socket, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { real.ServeHTTP(spoiler{w}, r) }))
	var jobs [][]string
	for _, args := range commandsOfStories(t) {
		jobs = append(jobs, args)
		if !slices.Contains(args, "-q") && !slices.Contains(args, "--json") {
			jobs = append(jobs, append([]string{"--json"}, args...))
		}
	}
	next, hostileSeen := make(chan []string), 0
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 4 {
		wg.Go(func() {
			for args := range next {
				text := onTerminalFor(t, hostile, args)
				mu.Lock()
				if strings.Contains(text, `\u202e`) {
					hostileSeen++
				}
				mu.Unlock()
				for _, r := range ownSequences.ReplaceAllString(text, "") {
					if !unicode.IsPrint(r) && !strings.ContainsRune("\n\r\t", r) {
						t.Errorf("polisctl %s: %U in %q", strings.Join(args, " "), r, text)
						break
					}
				}
			}
		})
	}
	for _, j := range jobs {
		next <- j
	}
	close(next)
	wg.Wait()
	require.Greater(t, hostileSeen, 100, "the text was shown, escaped")
}

// onTerminalFor returns what polisctl prints on a terminal, at most for some seconds.
func onTerminalFor(t *testing.T, f *fake, args []string) string {
	c := startOnTerminal(t, f, args...)
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(3 * time.Second): // it follows something, or asks
		_ = c.cmd.Process.Signal(syscall.SIGKILL)
		<-done
	}
	c.sub.Close() // the last descriptor of the terminal: its output ends
	<-c.eof
	return c.text()
}
