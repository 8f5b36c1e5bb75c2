package screen

import (
	"hash/maphash"
	"time"
)

const (
	// Settled is how long a line must stay unchanged before it is written. A line that changes
	// earlier is a frame of an animation.
	Settled = 300 * time.Millisecond

	maxSeen  = 512 // the number of lines that are remembered, so that a line that moved is not written again
	maxBack  = 1000
	backText = 256 << 10 // bytes of scroll-back
	maxLine  = 16 << 10  // bytes of one wrapped line
)

// backlog is the scroll-back: the lines that scrolled off the top of the main screen.
type backlog struct {
	lines   []string
	bytes   int
	dropped int
	open    bool // the last line has not ended
}

func (b *backlog) push(text string, wrapped bool) {
	if n := len(b.lines); b.open && n > 0 && len(b.lines[n-1])+len(text) < maxLine {
		b.lines[n-1] += text
	} else {
		b.lines = append(b.lines, text)
	}
	b.bytes += len(text)
	b.open = wrapped
	for len(b.lines) > maxBack || b.bytes > backText && len(b.lines) > 1 {
		b.bytes -= len(b.lines[0])
		b.lines[0] = ""
		b.lines = b.lines[1:]
		b.dropped++
	}
}

// transcript is the program's output as lines, in the order of their appearance.
type transcript struct {
	seed  maphash.Seed
	out   []byte
	part  bool // out ends in the middle of a wrapped line
	blank bool // a blank line that is written before the next line that is not blank
	// moved: since the last update of the transcript, the cursor has moved other than to the next
	// line. A row with the text of a line that was written has then probably moved, and is not
	// written again.
	moved bool
	seen  [maxSeen]uint64
	nseen int
	known map[uint64]int
}

// Take returns the transcript's new text since the last call. The slice is valid until the next
// call of any method.
func (s *Screen) Take() []byte {
	out := s.out
	s.out = s.out[:0]
	if cap(s.out) > 1<<20 {
		s.out = nil
	}
	return out
}

// look updates a row's hash and returns it. 0 is a blank row.
func (s *Screen) look(r *row, now time.Time) uint64 {
	if !r.touched {
		return r.hash
	}
	r.touched = false
	var buf [256]byte
	text := r.plain(buf[:0])
	h := uint64(0)
	for _, b := range text {
		if b != ' ' {
			h = maphash.Bytes(s.seed, text) | 1
			break
		}
	}
	if h != r.hash {
		r.hash, r.since = h, now
	}
	return h
}

// remember records the hash of a line that was written.
func (s *Screen) remember(h uint64) {
	if h == 0 {
		return
	}
	if s.known == nil {
		s.known = make(map[uint64]int, maxSeen)
	}
	slot := &s.seen[s.nseen%maxSeen]
	s.nseen++
	if s.known[*slot]--; s.known[*slot] <= 0 {
		delete(s.known, *slot)
	}
	*slot = h
	s.known[h]++
}

func (s *Screen) write(r *row, next bool) {
	if s.blank && s.moved {
		s.out = append(s.out, '\n')
	}
	s.blank = false
	if s.part && !next {
		s.out = append(s.out, '\n')
	}
	s.out = r.styled(s.out)
	if s.part = r.wrapped && next; !s.part {
		s.out = append(s.out, '\n')
	}
	r.wrote = r.hash
	s.remember(r.hash)
}

// complete writes a row that can no longer continue: the cursor is below it, or it scrolls off the
// screen.
func (s *Screen) complete(r *row) {
	switch {
	case r.sent && (r.hash == r.wrote || r.hash == 0 || s.known[r.hash] > 0):
	case r.sent:
		s.write(r, false)
	case r.hash != 0 && r.hash == r.wrote:
		r.sent = true
	case s.moved && r.hash == 0:
		r.sent, s.blank = true, true
	case s.moved && s.known[r.hash] > 0:
		r.sent, r.wrote = true, r.hash
	default:
		r.sent = true
		s.write(r, true)
	}
}

// leave is called before the first row of the main screen scrolls off.
func (s *Screen) leave() {
	r := s.main.rows[0]
	s.look(r, time.Time{})
	s.complete(r)
	s.back.push(string(r.styled(nil)), r.wrapped)
}

// turnPage blanks the screen. The rows of the main screen go to the scroll-back.
func (s *Screen) turnPage() {
	if s.at == s.main {
		for range s.main.last() {
			s.leave()
			s.main.up(0, s.h)
		}
		s.moved = true
		return
	}
	for i := range s.at.rows {
		s.at.rows[i].clear(0, s.w)
	}
}

// rewritten writes a row that changed under the cursor, unless it has been written.
func (s *Screen) rewritten(r *row) {
	if r.hash != 0 && r.hash != r.wrote && s.known[r.hash] == 0 {
		s.write(r, false)
	}
}

// Settle updates the transcript. It returns the time after which it must be called again if no
// output arrives; 0 if it need not be called.
func (s *Screen) Settle(now time.Time) (again time.Duration) {
	for i := range s.at.rows {
		r := s.at.rows[i]
		h := s.look(r, now)
		if s.at == s.main && i < s.cur.y && !r.sent {
			s.complete(r)
			continue
		}
		if h == 0 || h == r.wrote || s.known[h] > 0 {
			continue
		}
		if left := Settled - now.Sub(r.since); left > 0 {
			again = max(again, left)
			continue
		}
		s.rewritten(r)
	}
	s.moved = s.at != s.main || s.top != 0 || s.bottom != s.h
	return again
}

// pause writes the rows of the main screen before the alternate screen covers it.
func (s *Screen) pause() {
	for i := range s.main.last() {
		r := s.main.rows[i]
		if s.look(r, time.Time{}); i < s.cur.y {
			s.complete(r)
		} else {
			s.rewritten(r)
		}
	}
}

// End writes the rest when the program has ended.
func (s *Screen) End() {
	if s.at != s.main {
		for _, r := range s.at.rows {
			s.look(r, time.Time{})
			s.rewritten(r)
		}
		s.moved = true
	}
	for i := range s.main.last() {
		r := s.main.rows[i]
		s.look(r, time.Time{})
		s.complete(r)
	}
	if s.part {
		s.out, s.part = append(s.out, '\n'), false
	}
}
