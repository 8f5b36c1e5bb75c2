package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"polis/daemon"
)

// serve runs the daemon until a signal. INT and TERM stop the agents too, unless systemd restarts
// polisd. USR1 does not stop them, for an upgrade without systemd. HUP reads the configuration
// again.
func serve(ctx context.Context, d *daemon.Daemon, log *slog.Logger, sigs <-chan os.Signal) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	end, again, err := open(ctx, cancel, d, log, sigs)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	if end == nil {
		notify(log, sd.SdNotifyReady)
		g.Go(d.Serve)
		g.Go(func() error { watchdog(gctx, d, log); return nil })
		g.Go(func() error { status(gctx, d, log); return nil })
		if again {
			reload(d, log)
		}
	}
	for end == nil && gctx.Err() == nil {
		select {
		case s := <-sigs:
			if s == syscall.SIGHUP {
				reload(d, log)
				continue
			}
			end = s
		case <-gctx.Done():
			err = context.Cause(gctx)
		}
	}
	stopAgents := end != nil && end != syscall.SIGUSR1 && d.StopAgents(gctx)
	if end != nil {
		d.Halt() // the shims of a machine that goes down end too: no task of theirs is lost while it does
	}
	log.Info("stopping", "signal", fmt.Sprint(end), "agents", stopAgents)
	bound := stopTime + d.StopGrace()
	notify(log, fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", sd.SdNotifyStopping, (bound+20*time.Second).Microseconds()))
	cctx, ccancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer ccancel()
	cerr := d.Close(cctx, stopAgents)
	cancel(errors.New("stopped"))
	if werr := g.Wait(); werr != nil && err == nil && !errors.Is(werr, context.Canceled) {
		err = werr
	}
	return errors.Join(err, cerr, d.Release())
}

// open starts the daemon. After a signal to end, Open starts no agents and end is the signal.
// again reports a signal to reload. TERM and INT take precedence over USR1; a second TERM or INT
// interrupts the start.
func open(ctx context.Context, cancel context.CancelCauseFunc, d *daemon.Daemon, log *slog.Logger, sigs <-chan os.Signal) (end os.Signal, again bool, err error) {
	opened := make(chan error, 1)
	go func() { opened <- d.Open(ctx) }()
	for {
		select {
		case s := <-sigs:
			switch {
			case s == syscall.SIGHUP:
				again = true
				continue
			case end != nil && end != syscall.SIGUSR1 && s != syscall.SIGUSR1:
				cancel(fmt.Errorf("got %v and %v while starting", end, s))
			case end == nil || end == syscall.SIGUSR1:
				end = s
			}
			log.Info("end requested while starting", "signal", s.String())
			d.Halt()
		case err := <-opened:
			return end, again, err
		}
	}
}
