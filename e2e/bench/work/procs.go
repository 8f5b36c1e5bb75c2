package work

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// runProgram runs a program in the tree. It reads the program's output and discards it:
// some programs stop at the first match if their output is /dev/null.
func runProgram(_ *worker, r Request, measure func(func() error) error) (int, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(r.Argv[0], r.Argv[1:]...)
	cmd.Dir, cmd.Stderr = filepath.Join(r.Dir, r.Name), &stderr
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	err = measure(func() error {
		if err := cmd.Start(); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, out)
		return errors.Join(err, cmd.Wait())
	})
	var exit *exec.ExitError
	if errors.As(err, &exit) && slices.Contains(r.OK, exit.ExitCode()) {
		err = nil
	}
	if err != nil {
		text := stderr.Bytes()
		err = fmt.Errorf("%q: %w: %s", r.Argv, err, text[:min(len(text), 1000)])
	}
	return 1, err
}

// part is the first line on the standard input of a reader process. The reader then prints the CPU
// time that it has used, and waits for another line before it reads the files.
type part struct {
	Files []string `json:"files"`
}

// readFiles reads every file completely, in r.Procs processes. All of them run
// before the measurement begins.
func readFiles(w *worker, r Request, measure func(func() error) error) (int, error) {
	files, err := w.list(r.Dir, r.N, r.Skip)
	if err != nil {
		return 0, err
	}
	if r.Procs <= 1 {
		return len(files), measure(func() error { return readEach(files) })
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	var readers []*reader
	defer func() {
		for _, c := range readers {
			c.end()
		}
	}()
	for i := range r.Procs {
		c, err := startReader(self, files[i*len(files)/r.Procs:(i+1)*len(files)/r.Procs])
		if err != nil {
			return 0, err
		}
		readers = append(readers, c)
		w.discount += time.Duration(c.startup)
	}
	return len(files), measure(func() error {
		var errs error
		for _, c := range readers {
			errs = errors.Join(errs, c.line("go\n"))
		}
		for _, c := range readers {
			errs = errors.Join(errs, c.wait())
		}
		return errs
	})
}

type reader struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	done bool
	// startup is the CPU time, in ns, that the process used before the work began.
	startup int64
}

func startReader(self string, files []string) (*reader, error) {
	cmd := exec.Command(self, "reader")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &reader{cmd: cmd, in: in, out: bufio.NewReader(out)}
	b, err := json.Marshal(part{Files: files})
	if err == nil {
		err = c.line(string(b) + "\n")
	}
	if err == nil {
		_, err = fmt.Fscanf(c.out, "ready %d\n", &c.startup)
	}
	if err != nil {
		c.end()
		return nil, fmt.Errorf("start a reader: %w", err)
	}
	return c, nil
}

func (c *reader) line(s string) error {
	_, err := io.WriteString(c.in, s)
	return err
}

func (c *reader) wait() error {
	c.done = true
	return c.cmd.Wait()
}

// end kills a reader that has not been waited for.
func (c *reader) end() {
	if !c.done {
		_ = c.cmd.Process.Kill() // it may have ended by itself
		_ = c.wait()             // killed, so never a success
	}
}

// Read is the main function of one reader process: see readFiles.
func Read(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var p part
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "ready %d\n", cpu().Nanoseconds()); err != nil {
		return err
	}
	if _, err := lines.ReadString('\n'); err != nil {
		return err
	}
	return readEach(p.Files)
}

func readEach(files []string) error {
	data := make([]byte, 64<<10)
	for _, f := range files {
		fd, err := unix.Open(f, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", f, err)
		}
		for {
			n, err := unix.Read(fd, data)
			if err != nil {
				unix.Close(fd)
				return fmt.Errorf("read %s: %w", f, err)
			}
			if n == 0 {
				break
			}
		}
		unix.Close(fd)
	}
	return nil
}
