package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// WhySize is the number of different refusals that a Why keeps.
const WhySize = 64

// Why keeps the last refusals of an agent, for /run/polis/why. Equal ones are one entry with a count. When it is full, the
// oldest entry of the class that has most goes: a flood displaces itself, and not what else was refused.
type Why struct {
	mu      sync.Mutex
	list    []*whyEntry // the oldest first
	classes map[Class]int
	// more is how many refusals are not in the list any more, and last the time of the last of them.
	more int
	last time.Time
}

type whyEntry struct {
	Denial
	class Class
}

// NewWhy makes an empty recorder.
func NewWhy() *Why { return &Why{classes: map[Class]int{}} }

// equal reports whether a refusal is like the entry. Its program is not always found.
func (e *whyEntry) equal(d Denial) bool {
	return e.Op == d.Op && e.Path == d.Path && e.Code == d.Code && e.Holder == d.Holder && (e.Program == d.Program || e.Program == "" || d.Program == "")
}

// Add records a refusal, and reports whether an equal one was kept. It does not block.
func (w *Why) Add(d Denial) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.list, func(e *whyEntry) bool { return e.equal(d) })
	if again = i >= 0; again {
		was := w.list[i]
		if d.First = was.First; d.First.IsZero() {
			d.First = was.Time
		}
		d.Count = max(was.Count, 1) + max(d.Count, 1)
		if d.Program == "" && was.Program != "" {
			d.Program, d.Pid = was.Program, was.Pid
		}
		w.drop(i)
	} else if len(w.list) >= WhySize {
		i = w.most()
		w.more += max(w.list[i].Count, 1)
		if at := w.list[i].Time; at.After(w.last) {
			w.last = at
		}
		w.drop(i)
	}
	e := &whyEntry{d, d.Class()}
	w.list = append(w.list, e)
	w.classes[e.class]++
	return again
}

// drop removes an entry. w.mu is held.
func (w *Why) drop(i int) {
	c := w.list[i].class
	if w.classes[c]--; w.classes[c] == 0 {
		delete(w.classes, c)
	}
	w.list = slices.Delete(w.list, i, i+1)
}

// most returns the oldest entry of a class that has most. w.mu is held.
func (w *Why) most() int {
	most, at := 0, 0
	for i, e := range w.list {
		if n := w.classes[e.class]; n > most {
			most, at = n, i
		}
	}
	return at
}

// Entries returns the kept refusals, newest first.
func (w *Why) Entries() []Denial {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Denial, 0, len(w.list))
	for _, e := range slices.Backward(w.list) {
		out = append(out, e.Denial)
	}
	return out
}

// More returns how many refusals are not kept any more, and the time of the last of them.
func (w *Why) More() (n int, last time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.more, w.last
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
		fmt.Fprintf(&b, "%s  %s of %s was refused: %s (%s)", d.Time.Format(time.TimeOnly), d.Op, printable(d.Path), d.Shown(), d.Errno)
		if d.Count > 1 {
			fmt.Fprintf(&b, ", %d times", d.Count)
		}
		b.WriteByte('\n')
		if !d.First.IsZero() && d.Count > 1 {
			fmt.Fprintf(&b, "  since:     %s\n", d.First.Format(time.TimeOnly))
		}
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
	if n, last := w.More(); n > 0 {
		fmt.Fprintf(&b, "\n%d other refusals are not listed here, the last one at %s: the receipts on the host have them\n", n, last.Format(time.TimeOnly))
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
