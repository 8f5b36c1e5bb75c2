package inode

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxFormer bounds the names of Formers, maxFormerOf those of one file. Beyond it one is forgotten: of a file, the
	// oldest.
	maxFormer, maxFormerOf = 1 << 16, 64
	// maxAskers bounds the threads that have asked for such a name lately.
	maxAskers = 256
	// repeatTime is how soon the kernel repeats a call.
	repeatTime = time.Second
	// maxWaiting bounds the names that wait in Wait.
	maxWaiting = 1024
)

// nameAt is a name in a directory.
type nameAt struct {
	dir  uint64
	name string
}

// Former is a name that a file had.
type Former struct {
	Node *Node

	at    nameAt
	kept  time.Time // when the kernel began to keep it; zero if it does not
	asked bool      // the kernel has asked for it
	waits bool
}

// Dir is the number of the directory.
func (f *Former) Dir() uint64 { return f.at.dir }

// asker is a thread that has asked for a former name in one call.
type asker struct {
	at    nameAt
	call  string
	asked int     // how often
	last  *Former // the last answer
	other int     // answers that were guessed
	when  time.Time
}

// Formers are the names that files with other names have had. The zero value is ready. Its mutex is a leaf.
type Formers struct {
	n atomic.Int32

	mu      sync.Mutex
	at      map[uint64]map[string][]*Former // by directory and name, the newest last
	of      map[uint64][]*Former            // by file, the oldest first
	askers  map[uint32]*asker
	waiting []*Former
	tid     uint32 // a thread that asks for expected
	expects *Former
}

// Any reports whether there is a name.
func (f *Formers) Any() bool { return f.n.Load() > 0 }

// Has reports whether a name was one of a file that has others.
func (f *Formers) Has(dir uint64, name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.at[dir][name]) > 0
}

// Add remembers that n had a name. kept says that the kernel keeps it.
func (f *Formers) Add(dir uint64, name string, n *Node, kept bool) *Former {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		f.at, f.of, f.askers = map[uint64]map[string][]*Former{}, map[uint64][]*Former{}, map[uint32]*asker{}
	}
	at := nameAt{dir, string([]byte(name))} // it may be part of a request buffer
	one := &Former{at: at, Node: n, asked: kept}
	for _, before := range f.named(at) {
		if before.Node == n { // the kernel can have both
			one.asked = before.asked || kept
			f.drop(before)
			break
		}
	}
	if of := f.of[n.ID]; len(of) >= maxFormerOf {
		f.drop(of[0])
	}
	if f.n.Load() >= maxFormer {
		for _, all := range f.of {
			f.drop(all[0])
			break
		}
	}
	if kept {
		one.kept = time.Now()
	}
	if f.at[dir] == nil {
		f.at[dir] = map[string][]*Former{}
	}
	f.at[dir][at.name] = append(f.at[dir][at.name], one)
	f.of[n.ID] = append(f.of[n.ID], one)
	f.n.Add(1)
	return one
}

// named returns the files that had a name.
func (f *Formers) named(at nameAt) []*Former { return f.at[at.dir][at.name] }

func (f *Formers) drop(one *Former) {
	is := func(o *Former) bool { return o == one }
	names := f.at[one.at.dir]
	if names[one.at.name] = slices.DeleteFunc(names[one.at.name], is); len(names[one.at.name]) == 0 {
		delete(names, one.at.name)
	}
	if len(names) == 0 {
		delete(f.at, one.at.dir)
	}
	id := one.Node.ID
	if f.of[id] = slices.DeleteFunc(f.of[id], is); len(f.of[id]) == 0 {
		delete(f.of, id)
	}
	f.n.Add(-1)
}

// Forget drops what is known of a file that has no name left, or of a file or a directory that the kernel has
// forgotten.
func (f *Formers) Forget(id uint64) {
	if !f.Any() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range slices.Clone(f.of[id]) {
		f.drop(one)
	}
	for _, all := range f.at[id] {
		for _, one := range slices.Clone(all) {
			f.drop(one)
		}
	}
}

// Changing is called when a thread changes something: what it asks for next is no repetition.
func (f *Formers) Changing(tid uint32) {
	if !f.Any() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.askers, tid)
}

// Asked returns the name that a thread means which asks for it; nil is what is there now. sure is false if the thread
// can mean another one. call distinguishes the calls of the thread, which the kernel repeats with the same question if
// the answer was wrong. meant returns what the names in the call mean, each nil or one of the names; none if that is
// not known.
func (f *Formers) Asked(tid uint32, dir uint64, name, call string, meant func([]*Former) []*Former) (_ *Former, sure bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := nameAt{dir, name}
	all := f.named(at)
	if len(all) == 0 {
		return nil, false
	}
	if tid == f.tid && f.expects != nil && f.expects.at == at {
		return f.expects, true
	}
	a := f.asker(tid, at, call)
	a.when = time.Now()
	known := meant(all)
	n := a.asked
	a.asked++
	switch {
	case n < 2*len(known): // a call can ask twice, and be repeated
		a.last = known[n%len(known)]
	case n > 0 && a.last == nil:
		// Those that the kernel does not keep first, and of these the newest.
		order := make([]*Former, 0, len(all))
		for _, kept := range []bool{false, true} {
			for _, one := range slices.Backward(all) {
				if !one.kept.IsZero() == kept {
					order = append(order, one)
				}
			}
		}
		a.last = order[a.other%len(order)]
		a.other++
	default:
		a.last = nil
	}
	if a.last != nil { // the kernel keeps nothing of this answer
		a.last.asked, a.last.kept = true, time.Time{}
	}
	return a.last, false
}

// asker is what is known of a thread that asks for a name.
func (f *Formers) asker(tid uint32, at nameAt, call string) *asker {
	a := f.askers[tid]
	if a != nil && a.at == at && a.call == call && time.Since(a.when) < repeatTime {
		return a
	}
	if a == nil && len(f.askers) >= maxAskers {
		for old, a := range f.askers {
			if time.Since(a.when) > repeatTime {
				delete(f.askers, old)
			}
		}
		if len(f.askers) >= maxAskers {
			clear(f.askers)
		}
	}
	at.name = string([]byte(at.name)) // as in Add
	a = &asker{at: at, call: call}
	f.askers[tid] = a
	return a
}

// Kept records that the kernel keeps a name from now on.
func (f *Formers) Kept(one *Former) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one.kept, one.asked = time.Now(), true
}

// Wait puts a name among those that wait for Take.
func (f *Formers) Wait(one *Former) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.waits || len(f.waiting) >= maxWaiting {
		return
	}
	one.waits = true
	f.waiting = append(f.waiting, one)
}

// Take returns what waits.
func (f *Formers) Take() []*Former {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.waiting
	for _, one := range all {
		one.waits = false
	}
	f.waiting = nil
	return all
}

// Expect says that a thread asks for a name from now on, if the kernel has not kept it for less than limit; it returns
// false if there is nothing to ask for.
func (f *Formers) Expect(tid uint32, one *Former, limit time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.askers, tid)
	f.tid, f.expects = tid, one
	return slices.Contains(f.named(one.at), one) && time.Since(one.kept) >= limit
}

// Expected says that a thread asks for nothing more. It forgets a name that the kernel could have asked for, and never
// has.
func (f *Formers) Expected(one *Former, could bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tid, f.expects = 0, nil
	if could && !one.asked && slices.Contains(f.named(one.at), one) {
		f.drop(one)
	}
}
