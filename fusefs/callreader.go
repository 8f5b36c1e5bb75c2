package fusefs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"polis/fusefs/apart"
	"polis/fusefs/backing"
)

// readCallTime bounds the reading of a call. The memory of a program can be a file of the view, or be given by another
// program: reading it can take as long as they like, and then nothing is known of the call.
const readCallTime = 200 * time.Millisecond

// callReader reads what threads do that wait for an answer, on a thread of its own. The zero value is ready.
type callReader struct {
	once sync.Once
	ask  chan readCall
}

type readCall struct {
	tid    uint32
	answer chan readAnswer // with room for one
}

type readAnswer struct {
	call  string
	paths []string
}

// of returns the call of a thread and its paths; nothing if they cannot be read in time.
func (c *callReader) of(fs *FS, tid uint32) (string, []string) {
	c.once.Do(func() {
		c.ask = make(chan readCall)
		// It is not waited for: its end can be as late as that of the program that it reads. It has no lock.
		go c.run(fs, fs.server.Dead())
	})
	r := readCall{tid, make(chan readAnswer, 1)}
	t := time.NewTimer(readCallTime)
	defer t.Stop()
	select {
	case c.ask <- r:
	case <-t.C:
		return "", nil
	}
	select {
	case a := <-r.answer:
		return a.call, a.paths
	case <-t.C:
		return "", nil
	}
}

// run answers until the connection ends. This process must not keep the connection meanwhile: see package apart.
func (c *callReader) run(fs *FS, ended <-chan struct{}) {
	err := apart.Do(context.Background(), func() error {
		for {
			select {
			case r := <-c.ask:
				call, paths := backing.CallPaths(r.tid)
				r.answer <- readAnswer{call, paths}
			case <-fs.dying:
				return nil
			case <-ended:
				return nil
			}
		}
	})
	if err != nil {
		fs.log.Warn("calls of programs are not read", slog.String("op", "revalidate"), slog.Any("err", err))
	}
}
