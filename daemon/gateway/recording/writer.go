package recording

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/host/private"
)

// stopRoom is kept free for the line that says why a recording stopped, in bytes.
const stopRoom = 512

// Suffix ends the names of recordings, which begin with the ID of the task.
const Suffix = ".jsonl"

// DirName is the directory of an agent's recordings, in that of its logs.
const DirName = "recordings"

// File is the recording of a task of an agent with this log directory.
func File(logs, task string) string { return filepath.Join(logs, DirName, task+Suffix) }

// Writer records the tasks of one agent. Set the fields, then use it from any goroutine.
type Writer struct {
	// Logs is the agent's log directory.
	Logs string
	// Stopped is called once for a task of which nothing more is recorded, with the reason. It must not
	// block.
	Stopped func(task, why string)
	Now     func() time.Time

	mu     sync.Mutex
	limit  int64
	file   *taskFile
	closed bool
}

// taskFile is the recording of one task. It is closed when the next task has begun and its last
// exchange has ended.
type taskFile struct {
	task string
	f    *os.File
	size int64
	// open are the exchanges that have no end yet.
	open    int
	stopped bool
	retired bool
}

// Exchange is a request that is recorded. All methods may be called on nil, and do nothing then.
type Exchange struct {
	w     *Writer
	file  *taskFile
	x     int64
	began time.Time
	ended bool
}

// Limit sets how many bytes the recording of a task can have.
func (w *Writer) Limit(bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = bytes
}

// Begin records a request of a task. It returns nil if the request is not recorded.
func (w *Writer) Begin(task string, r Request) *Exchange {
	packed, err := pack(r.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || task == "" {
		return nil
	}
	if w.file == nil || w.file.task != task {
		w.retire()
		w.file = w.openTask(task)
	}
	t := w.file
	if t.stopped {
		return nil
	}
	if err != nil {
		w.stop(t, err.Error())
		return nil
	}
	x := t.size
	if !w.put(t, frame{X: x, Request: &r, Body: packed}) {
		return nil
	}
	t.open++
	return &Exchange{w: w, file: t, x: x, began: w.Now()}
}

// openTask opens the recording of a task, without what a crash left of a line. w.mu is held.
func (w *Writer) openTask(task string) *taskFile {
	t := &taskFile{task: task}
	err := private.Dir(filepath.Join(w.Logs, DirName))
	if err == nil {
		t.f, err = os.OpenFile(File(w.Logs, task), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	}
	if err == nil {
		t.size, err = cutTorn(t.f)
	}
	if err != nil {
		if t.f != nil {
			err = errors.Join(err, t.f.Close())
			t.f = nil
		}
		w.stop(t, fmt.Sprintf("its file cannot be opened: %v", err))
	}
	return t
}

// cutTorn removes the end of a file after its last whole line, and returns the size.
func cutTorn(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size := st.Size()
	buf := make([]byte, 64<<10)
	for end := size; end > 0; {
		n := min(int64(len(buf)), end)
		if _, err := f.ReadAt(buf[:n], end-n); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := n - 1; i >= 0; i-- {
			if buf[i] == '\n' {
				if whole := end - n + i + 1; whole < size {
					return whole, f.Truncate(whole)
				}
				return size, nil
			}
		}
		end -= n
	}
	return 0, f.Truncate(0)
}

// put writes a line, unless the recording is full. w.mu is held.
func (w *Writer) put(t *taskFile, f frame) bool {
	if t.stopped {
		return false
	}
	line, err := f.line()
	if err != nil {
		w.stop(t, err.Error())
		return false
	}
	if t.size+int64(len(line)) > w.limit-stopRoom {
		w.stop(t, fmt.Sprintf("it has the %d MiB that a recording can have", w.limit>>20))
		return false
	}
	return w.write(t, line)
}

func (w *Writer) write(t *taskFile, line []byte) bool {
	if _, err := t.f.WriteAt(line, t.size); err != nil {
		// A part of the line would make the next ones unreadable.
		if terr := t.f.Truncate(t.size); terr != nil {
			err = errors.Join(err, terr)
		}
		if !t.stopped {
			w.stop(t, fmt.Sprintf("it cannot be written: %v", err))
		}
		return false
	}
	t.size += int64(len(line))
	return true
}

// stop ends the recording of a task. w.mu is held.
func (w *Writer) stop(t *taskFile, why string) {
	t.stopped = true
	if t.f != nil {
		if line, err := (frame{X: t.size, Stopped: why[:min(len(why), 200)]}).line(); err == nil {
			w.write(t, line)
		}
	}
	w.Stopped(t.task, why)
}

// retire lets the file of a task be closed. w.mu is held.
func (w *Writer) retire() {
	if w.file != nil {
		w.file.retired = true
		w.file.release()
	}
	w.file = nil
}

// release closes a file that nothing needs any more. The writer's mutex is held.
func (t *taskFile) release() {
	if t.retired && t.open == 0 && t.f != nil {
		_ = t.f.Close() //nolint:errcheck // each write has reported its own error
		t.f, t.stopped = nil, true
	}
}

// Close ends all recordings. Exchanges that are open have no end then, which is that of cut ones.
func (w *Writer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.retire()
}

// Answer records the beginning of the answer.
func (x *Exchange) Answer(a Answer) { x.note(frame{Answer: &a}) }

// Data records a chunk of the answer.
func (x *Exchange) Data(b []byte) {
	if x != nil {
		x.note(frame{Data: b, Millis: x.w.Now().Sub(x.began).Milliseconds()})
	}
}

func (x *Exchange) note(f frame) {
	if x == nil {
		return
	}
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	if f.X = x.x; !x.ended {
		x.w.put(x.file, f)
	}
}

// End records the end of the answer. cut: it did not come to its end.
func (x *Exchange) End(cut bool) {
	if x == nil {
		return
	}
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	if x.ended {
		return
	}
	end := endWhole
	if cut {
		end = endCut
	}
	x.w.put(x.file, frame{X: x.x, End: end})
	x.ended = true
	x.file.open--
	x.file.release()
}
