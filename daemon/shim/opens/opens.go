package opens

import (
	"context"
	"sync"
	"syscall"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/fusefs"
)

const (
	// maxEntries and maxBytes bound what waits for polisd.
	maxEntries = 16384
	maxBytes   = 8 << 20
	// entryCost is what a record has besides its texts, in bytes.
	entryCost = 256
	// MaxBatch is how many records one answer has at most, and batchBytes how many bytes of text.
	MaxBatch   = 512
	batchBytes = 1 << 20
)

// Recorder is a fusefs.Auditor. Set the fields, then Open. Close waits for its goroutines.
type Recorder struct {
	// Life identifies the recorder: numbers of another one mean nothing.
	Life uint64
	// Deny refuses operations while the list is full; else they are counted.
	Deny bool
	// Task returns the agent's present task; "" for none.
	Task func() string
	Now  func() time.Time

	mu       sync.Mutex
	list     []entry
	sent     int            // how many of list were fetched and not confirmed
	first    uint64         // number of list[0]
	equal    map[key]uint64 // numbers of records that nobody has fetched
	bytes    int
	reserved int
	dropped  uint64
	fullAt   time.Time
	wake     chan struct{} // closed when a record comes; nil if nobody waits
	procs    processes
}

type entry struct {
	api.Open
	key  key
	cost int
}

// key is what equal records have in common.
type key struct {
	pid      uint32
	op       string
	path, to string
}

// Open starts what identifies processes.
func (r *Recorder) Open() { r.procs.open() }

// Close waits until that has ended. It is called when nothing is recorded any more.
func (r *Recorder) Close(ctx context.Context) error { return r.procs.close(ctx) }

// Reserve is part of fusefs.Auditor.
func (r *Recorder) Reserve() syscall.Errno {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Deny && (len(r.list)+r.reserved >= maxEntries || r.bytes+r.reserved*entryCost >= maxBytes) {
		return syscall.EIO
	}
	r.reserved++
	return 0
}

// Release is part of fusefs.Auditor.
func (r *Recorder) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reserved--
}

// Record is part of fusefs.Auditor.
func (r *Recorder) Record(c fusefs.Caller, op fusefs.Op, write bool, targets ...fusefs.Target) {
	if len(targets) == 0 {
		r.Release()
		return
	}
	t := targets[0]
	o := api.Open{Op: string(op), Write: write, Path: t.Path, Dir: t.Dir, Tree: t.Tree}
	if len(targets) > 1 && (op == fusefs.OpRename || op == fusefs.OpExchange || op == fusefs.OpLink) {
		o.To = targets[1].Path
	}
	r.add(c.Pid, o, true)
}

// Note records something that no auditor sees. It is never refused.
func (r *Recorder) Note(pid uint32, o api.Open) { r.add(pid, o, false) }

// add adds a record, whose texts are as they are, of a thread; reserved: there is room for it.
func (r *Recorder) add(pid uint32, o api.Open, reserved bool) {
	k := key{pid: pid, op: o.Op, path: o.Path, to: o.To}
	p := r.procs.of(pid)
	now := r.Now().UTC()
	r.mu.Lock()
	defer r.mu.Unlock()
	if reserved {
		r.reserved--
	}
	task := r.Task()
	if n, ok := r.equal[k]; ok {
		if e := &r.list[n-r.first]; e.Program == p.program && e.Command == p.command && e.Task == task {
			e.Count = max(e.Count, 1) + 1
			e.Last = &now
			return
		}
	}
	cost := entryCost + len(k.path) + len(k.to) + len(p.program) + len(p.command)
	if (!r.Deny || !reserved) && (len(r.list) >= maxEntries || r.bytes+cost > maxBytes) {
		r.dropped++
		return
	}
	if r.equal == nil {
		r.equal = map[key]uint64{}
	}
	r.equal[k] = r.first + uint64(len(r.list))
	r.bytes += cost
	o.Time, o.Path, o.To = now, api.EncodePath(k.path), api.EncodePath(k.to)
	o.PID, o.Program, o.Command, o.Task = p.pid, p.program, p.command, task
	r.list = append(r.list, entry{key: k, cost: cost, Open: o})
	if r.wake != nil {
		close(r.wake)
		r.wake = nil
	}
}

// Refused reports an operation that Reserve refused; true at most once a second.
func (r *Recorder) Refused() bool {
	now := r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.fullAt) < time.Second {
		return false
	}
	r.fullAt = now
	return true
}

// Fetch confirms the records before the number after, if it is of this recorder, and returns the next
// ones. If there are none it waits for some, at most until ctx ends; then for more, at most for pause.
// With a ctx that has ended it returns at once.
func (r *Recorder) Fetch(ctx context.Context, life, after uint64, pause time.Duration) wire.Opens {
	r.confirm(life, after)
	if wake := r.waiting(); wake != nil {
		select {
		case <-wake:
		case <-ctx.Done():
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return r.next()
}

func (r *Recorder) confirm(life, after uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if life != r.Life || after <= r.first {
		return
	}
	n := int(min(after-r.first, uint64(r.sent)))
	for _, e := range r.list[:n] {
		r.bytes -= e.cost
	}
	clear(r.list[:n])
	r.list = r.list[n:]
	r.first += uint64(n)
	r.sent -= n
}

// waiting returns a channel that ends a wait for records; nil if there are some.
func (r *Recorder) waiting() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) > 0 {
		return nil
	}
	if r.wake == nil {
		r.wake = make(chan struct{})
	}
	return r.wake
}

// next returns the first records. They are not changed any more.
func (r *Recorder) next() wire.Opens {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := wire.Opens{Life: r.Life, Next: r.first, List: []api.Open{}, Dropped: r.dropped}
	bytes := 0
	for _, e := range r.list[:min(len(r.list), MaxBatch)] {
		if bytes += e.cost; bytes > batchBytes && len(b.List) > 0 {
			break
		}
		b.List = append(b.List, e.Open)
	}
	b.Next += uint64(len(b.List))
	for ; r.sent < len(b.List); r.sent++ {
		if k := r.list[r.sent].key; r.equal[k] == r.first+uint64(r.sent) {
			delete(r.equal, k)
		}
	}
	return b
}

// Count returns how many records there were, and how many of them were confirmed.
func (r *Recorder) Count() wire.OpensCount {
	r.mu.Lock()
	defer r.mu.Unlock()
	return wire.OpensCount{Recorded: r.first + uint64(len(r.list)), Confirmed: r.first}
}

// Rest returns everything that was not confirmed, when no more records come.
func (r *Recorder) Rest() wire.Opens {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := wire.Opens{Life: r.Life, Next: r.first + uint64(len(r.list)), Dropped: r.dropped}
	for _, e := range r.list {
		b.List = append(b.List, e.Open)
	}
	return b
}
