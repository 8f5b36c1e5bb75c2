package screen

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/term"

	"polis/cmd/internal/ending"
	"polis/cmd/polis-tui/tui"
	"polis/daemon/api"
	"polis/daemon/http/client"
)

// The exit statuses, as in polisctl(1).
const (
	exitFailure = 1
	exitUsage   = 2
	exitTimeout = 7
	exitSignal  = 128 // plus the number of the signal
)

// Run draws the screen until the user leaves it and returns the exit status. args are those after the
// program's name; version is what --version prints.
func Run(args []string, version string) int {
	fs := flag.NewFlagSet("polis-tui", flag.ContinueOnError)
	socket := fs.String("socket", "", "polisd's `PATH`")
	workspace := fs.String("workspace", "", "only agents of this `WORKSPACE`")
	colors := fs.Bool("colors", false, "use colours")
	timeout := fs.Duration("timeout", 0, "leave after `DURATION`; 0 for never")
	show := fs.Bool("version", false, "print the version and exit")
	if err := fs.Parse(args); err != nil {
		return exitUsage
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "polis-tui: argument %q is not understood; it is started by: polisctl tui\n", fs.Arg(0))
		return exitUsage
	}
	if *show {
		fmt.Println("polis-tui", version)
		return 0
	}
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	if *timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *timeout)
		defer cancel()
	}
	sigs := make(chan os.Signal, 1)
	signal.Notify(sigs, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	restore := func() {}
	if modes, err := term.GetState(int(os.Stdin.Fd())); err == nil { // else it is no terminal, which the screen reports
		restore = func() { _ = term.Restore(int(os.Stdin.Fd()), modes) } // it fails only if the terminal is gone
	}
	left, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case s := <-sigs:
			if sig, ok := s.(syscall.Signal); ok {
				stop(interrupted(sig))
				ending.Within(left, sig, restore)
			}
		case <-ctx.Done():
			signal.Stop(sigs) // whatever does not end now, a signal ends
		}
	}()
	c := client.New(*socket)
	defer c.Close()
	err := tui.Run(ctx, tui.Options{Daemon: c, Workspace: *workspace, Colors: *colors, In: os.Stdin, Out: os.Stdout, Polisctl: polisctl(ctx, c.Socket), Now: time.Now, Getenv: os.Getenv})
	restore() // a program that had the terminal, and was killed, did not
	signal.Stop(sigs)
	stop(nil)
	close(left)
	<-ended
	return status(err)
}

// childEnds bounds how long a polisctl may take to end before the screen. It gives a shell in it 2 s.
const childEnds = 4 * time.Second

// polisctl returns how to start the polisctl beside this program; nil if it is not there. When ctx ends, it gets SIGTERM.
func polisctl(ctx context.Context, socket string) func(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	for _, dir := range []string{filepath.Dir(self), "/usr/local/bin", "/usr/bin"} {
		path := filepath.Join(dir, "polisctl")
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() {
			return func(args ...string) *exec.Cmd {
				c := exec.CommandContext(ctx, path, append([]string{"--socket", socket}, args...)...) //nolint:forbidigo // it is the user's own, for the terminal
				c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
				c.WaitDelay = childEnds
				return c
			}
		}
	}
	return nil
}

// interrupted is the cause of a context that a signal ended.
type interrupted syscall.Signal

func (i interrupted) Error() string { return "interrupted by " + syscall.Signal(i).String() }

// status prints err and returns the exit status that polisctl documents for it.
func status(err error) int {
	if err == nil {
		return 0
	}
	e := api.AsError(err)
	fmt.Fprintln(os.Stderr, "polisctl: "+e.Message)
	if e.Hint != "" {
		fmt.Fprintln(os.Stderr, "hint: "+e.Hint)
	}
	var i interrupted
	switch {
	case errors.As(err, &i):
		return exitSignal + int(i)
	case api.CodeOf(err) == api.CodeTimeout:
		return exitTimeout
	}
	return exitFailure
}
