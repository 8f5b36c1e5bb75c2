package fusefs

import (
	"strings"
	"sync"
	"sync/atomic"
)

// Mover is a Guard that allows the move of a directory by the names in it. A
// name that is made below the directory after the guard has listed it, and
// before it moves, would get past the rules of the place the directory moves to.
type Mover interface {
	// Watched reports whether a move of whole trees is allowed by the names in
	// them, not by the targets alone.
	Watched(targets []Target) bool
	// MayCarry is true if a name may be written without a request. It must not block.
	MayCarry(path string, dir bool) bool
}

// maxMade bounds the names that are remembered for the moves under way. Past
// it they all ask the guard again.
const maxMade = 4096

// moves remembers the names that are made while directories move.
type moves struct {
	under atomic.Int32 // moves under way

	mu   sync.Mutex
	made []Target
}

// moveWatch is one move under way, from before the guard is called to its end.
type moveWatch struct {
	fs    *FS
	since int
}

// watchMove begins to remember names if m moves whole trees whose names matter.
func (fs *FS) watchMove(m *mutation, targets []Target) *moveWatch {
	if !m.exclusive || len(targets) != 2 || !targets[0].Tree || fs.mover == nil || !fs.mover.Watched(targets) {
		return nil
	}
	fs.moves.mu.Lock()
	defer fs.moves.mu.Unlock()
	fs.moves.under.Add(1)
	return &moveWatch{fs: fs, since: len(fs.moves.made)}
}

// end forgets the names with the last move.
func (w *moveWatch) end() {
	if w == nil {
		return
	}
	m := &w.fs.moves
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.under.Add(-1) == 0 {
		m.made = nil
	}
}

// noteMade remembers the names a mutation has made. The name lock is held, so that a move
// sees either the name in its listing or this note of it.
func (fs *FS) noteMade(op Op, targets []Target) {
	if fs.moves.under.Load() == 0 {
		return
	}
	switch op {
	case OpCreate, OpMknod, OpMkdir, OpSymlink, OpLink:
		targets = targets[:1]
	case OpRename:
		targets = targets[1:]
	case OpExchange:
	default:
		return
	}
	fs.moves.mu.Lock()
	defer fs.moves.mu.Unlock()
	if len(fs.moves.made) <= maxMade {
		fs.moves.made = append(fs.moves.made, targets...)
	}
}

// carries reports whether everything that was made below since the guard was
// asked may go where the move takes it. The name lock is held for writing.
func (w *moveWatch) carries(op Op, targets []Target) bool {
	if w == nil {
		return true
	}
	m := &w.fs.moves
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.made) > maxMade {
		return false
	}
	for _, t := range m.made[w.since:] {
		if !w.carried(t, targets[0].Path, targets[1].Path) {
			return false
		}
		if op == OpExchange && !w.carried(t, targets[1].Path, targets[0].Path) {
			return false
		}
	}
	return true
}

func (w *moveWatch) carried(t Target, from, to string) bool {
	rel, below := strings.CutPrefix(t.Path, from+"/")
	return !below || !t.Tree && w.fs.mover.MayCarry(t.Path, t.Dir) && w.fs.mover.MayCarry(to+"/"+rel, t.Dir)
}
