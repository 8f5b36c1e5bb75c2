package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// transcripts are the verbs that print lists.
var transcripts = []string{
	"agents list", "agents tasks ann", "approvals list", "approvals show claude-reviewer.k3f9q2ab", "approvals rules", "conflicts", "locks", "patrol",
	"patrol cases", "ports list", "queue", "races list", "snapshot list", "tasks", "top --number 1 --every 100ms", "workers list",
}

// TestTranscripts compares what each verb prints on a terminal of 80 and of 120 columns, and into a pipe, with
// files. POLIS_UPDATE=1 writes them. The values, the time and the time zone (TestMain) are fixed.
func TestTranscripts(t *testing.T) {
	dir, err := os.MkdirTemp("", "polis") // not t.TempDir: the path of a socket must be short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	values := transcriptValues()
	socket := filepath.Join(dir, "polisd.sock")
	serve(t, socket, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok := values[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		answer(w, http.StatusOK, v)
	}))
	for _, verb := range transcripts {
		name, _, _ := strings.Cut(strings.ReplaceAll(verb, " ", "-"), "--")
		for _, width := range []int{80, 120, 0} {
			t.Run(fmt.Sprintf("%s/%d", name, width), func(t *testing.T) {
				got := transcript(t, socket, width, strings.Fields(verb)...)
				for line := range strings.Lines(got) {
					if width > 0 {
						require.LessOrEqual(t, ansi.StringWidth(strings.TrimSuffix(line, "\n")), width, line)
					}
				}
				file := filepath.Join("testdata", "transcripts", fmt.Sprintf("%s.%d.txt", name, width))
				if os.Getenv("POLIS_UPDATE") != "" {
					require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
					require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				}
				want, err := os.ReadFile(file)
				require.NoError(t, err)
				require.Equal(t, string(want), got, "if this change is wanted: POLIS_UPDATE=1 go test ./cmd/polisctl -run TestTranscripts")
			})
		}
	}
}

// transcript returns what a command prints on a terminal of so many columns; 0 is a pipe.
func transcript(t *testing.T, socket string, width int, args ...string) string {
	t.Helper()
	var from, to *os.File
	var err error
	if width == 0 {
		from, to, err = os.Pipe()
		require.NoError(t, err)
	} else {
		from, to, err = pty.Open()
		require.NoError(t, err)
		require.NoError(t, pty.Setsize(from, &pty.Winsize{Rows: 50, Cols: uint16(width)}))
	}
	defer from.Close()
	var out bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&out, from) // a terminal that is closed gives EIO
	}()
	a := &app{stdin: to, stdout: to, stderr: to, socket: socket, now: func() time.Time { return noon }, getenv: func(name string) string {
		return map[string]string{"NO_COLOR": "1", "COLUMNS": "40"}[name]
	}}
	status := run(a, append(args, "--socket", socket))
	require.NoError(t, to.Close())
	<-read
	require.Zero(t, status, "%s", &out)
	return strings.ReplaceAll(out.String(), "\r\n", "\n")
}
