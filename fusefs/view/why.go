package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// WhySize is the number of refusals that a Why keeps.
const WhySize = 64

// Why keeps the last refusals of an agent, for /run/polis/why.
type Why struct {
	mu   sync.Mutex
	ring [WhySize]Denial
	n    uint64 // refusals recorded since the start
}

// NewWhy makes an empty recorder.
func NewWhy() *Why { return &Why{} }

// Add records a refusal. It does not block.
func (w *Why) Add(d Denial) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ring[w.n%WhySize] = d
	w.n++
}

// Entries returns the kept refusals, newest first.
func (w *Why) Entries() []Denial {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Denial, 0, min(w.n, WhySize))
	for i := uint64(1); i <= min(w.n, WhySize); i++ {
		out = append(out, w.ring[(w.n-i)%WhySize])
	}
	return out
}

// JSON renders the refusals as an array, newest first.
func (w *Why) JSON() []byte {
	b, err := json.MarshalIndent(w.Entries(), "", "  ")
	if err != nil {
		// Only a time outside the years 0 to 9999 makes this fail.
		return []byte("[]\n")
	}
	return append(b, '\n')
}

// Text renders the refusals for people and agents, newest first.
func (w *Why) Text() []byte {
	entries := w.Entries()
	if len(entries) == 0 {
		return []byte("Nothing was refused.\n")
	}
	var b bytes.Buffer
	for i, d := range entries {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s  %s of %s was refused: %s (%s)", d.Time.Format(time.TimeOnly), d.Op, printable(d.Path), d.Code, d.Errno)
		if d.Count > 1 {
			fmt.Fprintf(&b, ", %d times", d.Count)
		}
		b.WriteByte('\n')
		if d.Program != "" {
			fmt.Fprintf(&b, "  asked by:  %s\n", printable(d.Program))
		}
		if d.Holder != "" {
			fmt.Fprintf(&b, "  held by:   %s", d.Holder)
			if !d.Since.IsZero() {
				fmt.Fprintf(&b, ", since %s (%s at that time)", d.Since.Format(time.TimeOnly), max(0, d.Time.Sub(d.Since)).Truncate(time.Second))
			}
			b.WriteByte('\n')
		}
		if d.Rule != "" {
			fmt.Fprintf(&b, "  because:   %s\n", printable(d.Rule))
		}
		if d.Hint != "" {
			fmt.Fprintf(&b, "  do next:   %s\n", d.Hint)
		}
	}
	return b.Bytes()
}

// printable quotes a name with control characters, so that the name stays on its line.
func printable(s string) string {
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return fmt.Sprintf("%q", s)
		}
	}
	if s == "" {
		return "the top directory"
	}
	return s
}
