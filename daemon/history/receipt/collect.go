package receipt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

const (
	// again is the pause after a fetch or a write that failed, and drainTime bounds the last fetches.
	again     = time.Second
	drainTime = 2 * time.Second
	// opensData bounds the text of the opens of one entry, in bytes.
	opensData = 24 << 10
	// maxLeft bounds the file that a shim leaves, in bytes.
	maxLeft = 64 << 20
)

// Collector stores what one agent opens: the shim's records become entries of the agent's log, and
// are confirmed when they are durable. Assign the fields, then Run.
type Collector struct {
	Agent string
	// Store returns the receipts of the agent's workspace; nil if there is none now.
	Store func() *Store
	// Fetch confirms what is stored of a list, and returns the next records: with now at once, else when
	// there are some, or after some time.
	Fetch func(ctx context.Context, life, after uint64, now bool) (wire.Opens, error)
	Log   *slog.Logger
	// Learn, if set, stores what a policy is learned from. LearnOnly: there are no receipts of it.
	Learn     func(b wire.Opens) error
	LearnOnly bool

	at    position
	noted bool
}

// position is what is stored of a shim's list.
type position struct {
	Life    uint64 `json:"life"`
	Next    uint64 `json:"next"`
	Dropped uint64 `json:"dropped,omitempty"`
}

// opensEntry is the data of a receipt of opens.
type opensEntry struct {
	position
	Opens []api.Open `json:"opens"`
}

// Run stores records until ctx ends, and then what there still is.
func (c *Collector) Run(ctx context.Context) {
	c.resume(ctx)
	for ctx.Err() == nil {
		if err := c.step(ctx, false); err != nil {
			c.note(err)
			select {
			case <-time.After(again):
			case <-ctx.Done():
			}
		}
	}
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	for before := c.at; c.step(dctx, true) == nil && c.at != before; {
		before = c.at
	}
}

// errNotStored is an error of the log, and not of a shim that has ended or is busy.
var errNotStored = errors.New("opens not stored")

// note logs that the log cannot be written, once until it can again.
func (c *Collector) note(err error) {
	if !errors.Is(err, errNotStored) || c.noted {
		return
	}
	c.noted = true
	c.Log.Error("what an agent opens cannot be stored; its shim keeps it as long as it has room", "agent", c.Agent, "err", err)
}

// step stores one batch. An error means that nothing of it is stored: it comes again.
func (c *Collector) step(ctx context.Context, now bool) error {
	b, err := c.Fetch(ctx, c.at.Life, c.at.Next, now)
	if err != nil {
		return err
	}
	if err := c.keep(b); err != nil {
		return err
	}
	c.noted = false
	return nil
}

// keep stores a batch.
func (c *Collector) keep(b wire.Opens) error {
	next := position{Life: b.Life, Next: b.Next, Dropped: b.Dropped}
	at := c.at
	if at.Life != b.Life {
		at = position{Life: b.Life}
	}
	if c.Learn != nil {
		if err := c.Learn(b); err != nil {
			return fmt.Errorf("%w: %w", errNotStored, err)
		}
	}
	if c.LearnOnly {
		c.at = next
		return nil
	}
	if next == at && !b.Unfinished {
		return nil
	}
	s := c.Store()
	if s == nil {
		return fmt.Errorf("%w: the workspace of agent %s is not open", errNotStored, c.Agent)
	}
	entries := opensEntries(c.Agent, b)
	if b.Dropped > at.Dropped {
		entries = append(entries, Entry{Type: api.ReceiptMissed, Agent: c.Agent, Count: int(min(b.Dropped-at.Dropped, math.MaxInt32)),
			Message: "opens of the agent were dropped: there were more than could be stored", Data: raw(next)})
	}
	if b.Unfinished {
		entries = append(entries, Entry{Type: api.ReceiptMissed, Agent: c.Agent,
			Message: "the agent's shim was killed: opens that it had recorded in its last moments are missing", Data: raw(next)})
	}
	if err := s.Append(c.Agent, entries...); err != nil {
		return fmt.Errorf("%w: %w", errNotStored, err)
	}
	c.at = next
	return nil
}

// opensEntries splits a batch into entries.
func opensEntries(agent string, b wire.Opens) (out []Entry) {
	first := b.Next - uint64(len(b.List))
	var part []api.Open
	size := 0
	flush := func(next uint64) {
		if len(part) == 0 {
			return
		}
		out = append(out, Entry{Type: api.ReceiptOpens, Agent: agent, Message: "agent " + agent + " opened or changed " + api.Count(len(part), "file"),
			Data: raw(opensEntry{position{Life: b.Life, Next: next}, part})})
		part, size = nil, 0
	}
	for i, o := range b.List {
		if wire.OnlyLearned(o) {
			continue
		}
		text, err := json.Marshal(o)
		if err != nil || len(text) > opensData { // a name of thousands of bytes that need escapes
			for _, field := range []*string{&o.Op, &o.Path, &o.To, &o.Program, &o.Command, &o.Task} {
				*field = api.Shorten(*field, 1000)
			}
		}
		if size += min(len(text), opensData); size > opensData {
			flush(first + uint64(i))
			size = min(len(text), opensData)
		}
		part = append(part, o)
	}
	flush(b.Next)
	return out
}

// resume reads what was stored by an earlier polisd.
func (c *Collector) resume(ctx context.Context) {
	s := c.Store()
	if s == nil || c.LearnOnly { // what is learned twice is learned once
		return
	}
	_, err := s.Each(ctx, func(log string) bool { return log == c.Agent }, func(_ string, r *Receipt) error {
		if r.Type != api.ReceiptOpens && r.Type != api.ReceiptMissed {
			return nil
		}
		var p position
		if json.Unmarshal(r.Data, &p) != nil || p.Life == 0 {
			return nil //nolint:nilerr // an entry of another origin
		}
		if p.Life == c.at.Life {
			p.Dropped = max(p.Dropped, c.at.Dropped)
		}
		c.at = p
		return nil
	})
	if err != nil {
		c.Log.Warn("receipts not read; opens may be stored twice", "agent", c.Agent, "err", err)
	}
}

// Left stores what a shim left in a file when it ended. An error means that opens are missing, which
// the log does not say.
func (c *Collector) Left(ctx context.Context, path string) error {
	b, err := readLeft(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it had not begun to record, or this was done before
	}
	c.resume(ctx)
	switch {
	case err != nil: // it was killed while it wrote the file
		c.Log.Warn("what a shim left of opens is incomplete", "agent", c.Agent, "err", err)
		b = wire.Opens{Life: c.at.Life, Next: c.at.Next, Dropped: c.at.Dropped, Unfinished: true}
	case b.Unfinished && c.at.Life == b.Life:
		b.Next, b.Dropped = c.at.Next, c.at.Dropped
	case c.at.Life == b.Life:
		first := b.Next - uint64(len(b.List))
		if c.at.Next > first {
			b.List = b.List[min(c.at.Next-first, uint64(len(b.List))):]
		}
	}
	if err := c.keep(b); err != nil {
		return fmt.Errorf("store what the shim of agent %s left: %w", c.Agent, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove what the shim of agent %s left: %w", c.Agent, err)
	}
	return nil
}

func readLeft(path string) (b wire.Opens, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return b, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLeft+1))
	switch {
	case err != nil:
		return b, err
	case len(text) > maxLeft:
		return b, fmt.Errorf("it has more than %d bytes", maxLeft)
	}
	return parseLeft(text)
}

// parseLeft reads the file that a shim leaves.
func parseLeft(text []byte) (b wire.Opens, err error) {
	if err := json.Unmarshal(text, &b); err != nil {
		return wire.Opens{}, err
	}
	if b.Life == 0 || b.Next < uint64(len(b.List)) {
		return wire.Opens{}, errors.New("its numbers are wrong")
	}
	return b, nil
}
