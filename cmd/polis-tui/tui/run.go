package tui

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"polis/daemon/api"
)

// Options are what a screen needs.
type Options struct {
	Daemon Daemon
	// Workspace limits the screen to one; empty: all.
	Workspace string
	// Colors allows colours.
	Colors  bool
	In, Out *os.File
	// Polisctl returns a polisctl with arguments, for what needs the terminal itself; nil if
	// there is none.
	Polisctl func(args ...string) *exec.Cmd
	Now      func() time.Time
	// Getenv names the terminal, for notifications; nil: only the bell rings.
	Getenv func(string) string
}

// Run shows the screen until the user leaves or ctx ends; the terminal is then
// as it was. The error of a ctx that ended wraps its cause.
func Run(ctx context.Context, o Options) error {
	// A daemon that is not there at all is no reason to take the screen.
	hctx, cancel := context.WithTimeout(ctx, lookLimit)
	err := o.Daemon.Health(hctx)
	cancel()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	t := &tasks{ctx: ctx}
	opts := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out),
		tea.WithoutSignalHandler(), // signals end ctx
	}
	if !o.Colors {
		opts = append(opts, tea.WithColorProfile(colorprofile.ASCII))
	}
	p := tea.NewProgram(newModel(o, t), opts...)
	var wg sync.WaitGroup
	wg.Go(func() { follow(ctx, o.Daemon, func(m tea.Msg) { p.Send(m) }) })
	_, err = p.Run()
	cause := context.Cause(ctx)
	stop()
	wg.Wait()
	t.wait()
	switch {
	case cause != nil:
		return api.Errorf(api.CodeTimeout, "the screen was left: %w", cause)
	case errors.Is(err, tea.ErrInterrupted):
		return nil
	case err != nil:
		return api.Errorf(api.CodeInternal, "screen: %w", err)
	}
	return nil
}
