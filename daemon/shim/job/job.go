package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"polis/daemon/api/wire"
	"polis/daemon/host/private"
	"polis/daemon/store"
	"polis/daemon/store/layout"
)

const (
	margin     = 90 * time.Second // what a shim may take beyond the command's own time
	poll       = 20 * time.Millisecond
	watchEvery = time.Second
	tail       = 4 << 10 // bytes of the output that Tail returns
)

// Shims starts and ends the shim of a job; the daemon's launcher with its directories.
type Shims interface {
	// Start runs a shim with the spec that was written to SpecFile.
	Start(ctx context.Context, name string) error
	Alive(ctx context.Context, name string) (bool, error)
	// Clear ends the shim if it runs and removes what it left.
	Clear(ctx context.Context, name string) error
	// Dir is the shim's run directory, SpecFile where it finds its spec.
	Dir(name string) string
	SpecFile(name string) string
}

// Job is one command. Its name is Spec.Agent, and Spec.Check is the command.
type Job struct {
	Shims Shims
	Spec  wire.Spec
	// Started is called when the shim runs; nil: nothing is.
	Started func()
	// Watch is called every second; its error ends the wait. Nil: nothing is watched.
	Watch func(context.Context) error
}

// Run starts the shim and waits for its result. After an error the shim may still run, until
// Shims.Clear.
func (j Job) Run(ctx context.Context) (res wire.CheckResult, err error) {
	name := j.Spec.Agent
	dir := j.Shims.Dir(name)
	// polisd made the parent at its start; another program can have removed it since.
	if err := errors.Join(private.Shared(filepath.Dir(dir), false), private.Dir(dir)); err != nil {
		return res, err
	}
	if err := store.WriteSummed(j.Shims.SpecFile(name), j.Spec); err != nil {
		return res, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(j.Spec.Check.Timeout)+margin)
	defer cancel()
	if err := j.Shims.Start(ctx, name); err != nil {
		return res, err
	}
	if j.Started != nil {
		j.Started()
	}
	if res, err = j.await(ctx, name); err == nil && res.Error != "" {
		err = errors.New(res.Error)
	}
	return res, err
}

// await waits for the shim's result, or its end.
func (j Job) await(ctx context.Context, name string) (res wire.CheckResult, err error) {
	dir := j.Shims.Dir(name)
	watched := time.Now()
	for {
		alive, err := j.Shims.Alive(ctx, name)
		if err != nil {
			return res, err
		}
		b, err := os.ReadFile(layout.CheckResult(dir))
		if err == nil {
			return res, json.Unmarshal(b, &res)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return res, err
		}
		if !alive {
			return res, fmt.Errorf("its shim ended without a result; see %s", filepath.Join(dir, "shim.log"))
		}
		if j.Watch != nil && time.Since(watched) >= watchEvery {
			if err := j.Watch(ctx); err != nil {
				return res, err
			}
			watched = time.Now()
		}
		select {
		case <-ctx.Done():
			return res, context.Cause(ctx)
		case <-time.After(poll):
		}
	}
}

// Failure describes a result in a sentence that begins with what; "" if the command succeeded.
func Failure(what string, spec wire.Spec, res wire.CheckResult) string {
	switch {
	case res.TimedOut:
		return fmt.Sprintf("%s did not end in %s", what, time.Duration(spec.Check.Timeout))
	case res.OOM:
		return fmt.Sprintf("%s ran out of memory (%d MB)", what, spec.MemoryBytes>>20)
	case res.ExitCode != 0:
		return fmt.Sprintf("%s ended with exit code %d", what, res.ExitCode)
	}
	return ""
}

// Tail returns the end of a log, as valid UTF-8; "" if it cannot be read.
func Tail(log string) string {
	f, err := os.Open(log)
	if err != nil {
		return ""
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return ""
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, fi.Size()-tail), tail))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(b), "?")
}

// LastLines returns the last lines of a text of so many bytes, as valid UTF-8: at most lines of them (0: any number), and
// at most so many bytes. cut: there is more before them. A line whose beginning is cut off is left out, unless it is the
// only one.
func LastLines(r io.ReaderAt, size int64, lines int, most int64) (text string, cut bool, err error) {
	from := max(0, size-most)
	b, err := io.ReadAll(io.NewSectionReader(r, from, size-from))
	if err != nil {
		return "", false, err
	}
	if from > 0 {
		cut = true
		if i := bytes.IndexByte(b, '\n'); i >= 0 && i+1 < len(b) {
			b = b[i+1:]
		}
	}
	end := len(bytes.TrimSuffix(b, []byte("\n")))
	for i, n := end, 0; lines > 0 && i > 0; {
		i = bytes.LastIndexByte(b[:i], '\n')
		if n++; n == lines && i >= 0 {
			b, cut = b[i+1:], true
			break
		}
	}
	return strings.ToValidUTF8(string(b), "?"), cut, nil
}

// TrimLogs deletes the oldest logs of a directory, so that fewer than keep are left; their names sort
// by time.
func TrimLogs(dir string, keep int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for len(entries) >= keep {
		if err := os.Remove(filepath.Join(dir, entries[0].Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		entries = entries[1:]
	}
	return nil
}

// LogName is the name of a new log whose label is the beginning of an object id or key.
func LogName(now time.Time, label string) string {
	return now.UTC().Format("20060102T150405.000000") + "-" + label[:min(len(label), 12)] + ".log"
}
