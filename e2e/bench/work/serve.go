package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// worker caches the names in each tree, so that only rows such as "find" measure
// the walk.
type worker struct {
	lists map[string][]string
	// discount is CPU time of children that does not belong to the work.
	discount time.Duration
}

// An op performs an operation. It calls measure with the part to be measured.
type op func(w *worker, r Request, measure func(func() error) error) (int, error)

var ops = map[string]op{
	"where":    nil, // answered by Serve itself
	"run":      runProgram,
	"stat":     statFiles,
	"open":     openFiles,
	"readall":  readFiles,
	"create":   createFiles,
	"unlink":   unlinkFiles,
	"append":   appendFiles,
	"tracked":  unlinkTracked,
	"seqwrite": seqWrite,
	"seqread":  seqRead,
	"mmap":     mmapWrite,
	"random":   random,
	"mkdir":    makeDir,
	"remove":   remove,
}

// Serve answers requests from in until it ends.
func Serve(in io.Reader, out io.Writer) error {
	runtime.LockOSThread()
	debug.SetGCPercent(-1) // collect between requests, never during one
	w := &worker{lists: map[string][]string{}}
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var r Request
		err := dec.Decode(&r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("worker: read a request: %w", err)
		}
		if err := enc.Encode(w.do(r)); err != nil {
			return fmt.Errorf("worker: answer: %w", err)
		}
		runtime.GC()
	}
}

func (w *worker) do(r Request) Reply {
	var reply Reply
	if r.Op == "where" {
		dir, err := os.Getwd()
		if err != nil {
			reply.Err = err.Error()
		}
		reply.Text = dir
		return reply
	}
	f := ops[r.Op]
	if f == nil {
		return Reply{Err: fmt.Sprintf("worker: no operation %q", r.Op)}
	}
	w.discount = 0
	n, err := f(w, r, func(timed func() error) error {
		before, began := cpu(), time.Now()
		err := timed()
		reply.Wall, reply.CPU = time.Since(began), cpu()-before
		return err
	})
	reply.Ops, reply.CPU = n, reply.CPU-w.discount
	if err != nil {
		reply.Err = fmt.Sprintf("%s in %s: %v", r.Op, r.Dir, err)
	}
	return reply
}

// cpu returns the CPU time of this process and of the children that it has waited for.
func cpu() time.Duration {
	var sum int64
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err == nil {
			sum += u.Utime.Nano() + u.Stime.Nano()
		}
	}
	return time.Duration(sum)
}
