package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"polis/daemon"
)

// watchdog notifies systemd only after a probe that a hung daemon would fail.
func watchdog(ctx context.Context, d *daemon.Daemon, log *slog.Logger) {
	every, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("watchdog", "err", err)
	}
	if err != nil || every == 0 {
		return
	}
	t := time.NewTicker(every / 3)
	defer t.Stop()
	for {
		pctx, cancel := context.WithTimeout(ctx, every/3)
		if err := d.Probe(pctx); err != nil {
			log.Error("daemon not healthy", "err", err)
		} else {
			notify(log, sd.SdNotifyWatchdog)
		}
		cancel()
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// status keeps the status line of systemctl status up to date.
func status(ctx context.Context, d *daemon.Daemon, log *slog.Logger) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return
	}
	last := ""
	t := time.NewTicker(2 * time.Second)
	defer t.Stop()
	for {
		if s := d.Summary(); s != last {
			notify(log, "STATUS="+s)
			last = s
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}
