package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

func main() {
	w := &work{}
	home := os.Getenv("HOME")
	flag.StringVar(&w.dir, "dir", "busy", "work below this `DIR` of the current one")
	flag.StringVar(&w.stop, "stop", filepath.Join(home, "stop"), "end when this `FILE` appears")
	flag.StringVar(&w.listen, "listen", "", "echo what comes to this `ADDRESS`")
	flag.DurationVar(&w.pause, "pause", 2*time.Millisecond, "rest between two rounds of files")
	report := flag.String("report", filepath.Join(home, "report.json"), "write the report to this `FILE`")
	code := flag.Int("exit", 0, "end with this `CODE`")
	flag.Parse()
	if err := w.run(); err != nil {
		w.fail("run", w.dir, err)
	}
	b, err := json.Marshal(w.Report)
	if err == nil {
		// Atomically, because a reader waits for the file.
		if err = os.WriteFile(*report+".new", b, 0o644); err == nil {
			err = os.Rename(*report+".new", *report)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "busy:", err)
		os.Exit(99)
	}
	os.Exit(*code)
}

// Report is the result, which is written at the end.
type Report struct {
	Calls int `json:"calls"`
	// Failed are the calls that failed; the first 50 are listed.
	Failed   int       `json:"failed"`
	Failures []Failure `json:"failures,omitempty"`
	// Slow are calls of over 20 ms, the first 1000.
	Slow []Slow `json:"slow,omitempty"`
	// New are the names that were used for the first time.
	New     int `json:"new"`
	Lines   int `json:"lines"`
	Printed int `json:"printed"`
	Commits int `json:"commits"`
}

// Failure is a call that failed.
type Failure struct {
	Op, Path, Err string
	Time          time.Time
}

// Slow is a call that took long.
type Slow struct {
	Op         string
	Start, End time.Time
}

type work struct {
	Report
	dir, stop, listen string
	pause             time.Duration

	mu   sync.Mutex
	over chan struct{}
}

func (w *work) fail(op, path string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Failed++
	if len(w.Failures) < 50 {
		w.Failures = append(w.Failures, Failure{op, path, err.Error(), time.Now()})
	}
}

// try makes one call.
func (w *work) try(op, path string, f func() error) bool {
	start := time.Now()
	err := f()
	end := time.Now()
	w.mu.Lock()
	w.Calls++
	if end.Sub(start) > 20*time.Millisecond && len(w.Slow) < 1000 {
		w.Slow = append(w.Slow, Slow{op, start, end})
	}
	w.mu.Unlock()
	if err != nil {
		w.fail(op, path, err)
	}
	return err == nil
}

func (w *work) run() error {
	w.over = make(chan struct{})
	if err := os.MkdirAll(filepath.Join(w.dir, "new"), 0o755); err != nil {
		return err
	}
	if err := w.serve(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	for _, f := range []func(int){w.files, w.hold(), w.fresh, w.git, w.print} {
		wg.Go(func() {
			for i := 0; !w.ended(); i++ {
				f(i)
			}
		})
	}
	for {
		if _, err := os.Stat(w.stop); err == nil {
			break
		} else if !errors.Is(err, os.ErrNotExist) {
			w.fail("stat", w.stop, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	close(w.over)
	wg.Wait()
	return w.check()
}

func (w *work) ended() bool {
	select {
	case <-w.over:
		return true
	default:
		return false
	}
}
