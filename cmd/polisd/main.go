// Command polisd is the polis daemon. See polisd(8).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	sd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"polis/cmd/polisd/signals"
	"polis/daemon"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/host/desktop"
	"polis/daemon/host/private"
	"polis/internal/escape"
)

// version is set by the build.
var version = "devel"

// stopTime bounds an orderly stop, in addition to the grace period of the agents' programs.
// systemd's own limit is longer, and is extended for a longer grace period.
const stopTime = 80 * time.Second

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		e := api.AsError(err)
		fmt.Fprintln(os.Stderr, "polisd: "+escape.Lines(err.Error())+" ["+string(api.CodeOf(err))+"]")
		if e.Hint != "" {
			fmt.Fprintln(os.Stderr, "hint: "+escape.Lines(e.Hint))
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	defer signals.Release()
	unix.Umask(private.Umask)
	fs := flag.NewFlagSet("polisd", flag.ContinueOnError)
	file := fs.String("config", config.DefaultFile, "configuration `FILE`")
	check := fs.Bool("check", false, "check the configuration and exit")
	cleanup := fs.Bool("cleanup", false, "remove what a stopped daemon left, unless agents live, and exit")
	note := fs.Bool(desktop.Flag, false, "show the notification on standard input to the user who runs this, and exit (internal)")
	show := fs.Bool("version", false, "print the version and exit")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("argument %q is not understood; see polisd -help", fs.Arg(0))
	}
	if *show {
		fmt.Println("polisd", version)
		return nil
	}
	if *note {
		signals.Release() // polisd bounds its time, and ends it
		return desktop.Child(ctx, os.Stdin, os.Stdout)
	}
	c, err := config.Load(*file)
	if err != nil {
		return err
	}
	if _, err := config.LoadTypes(c.AgentsDir, c.Sandbox); err != nil {
		return err
	}
	if *check {
		fmt.Println("configuration is good:", *file)
		return nil
	}
	if *file, err = filepath.Abs(*file); err != nil {
		return err
	}
	log := logger(c.LogLevel, !*cleanup)
	d := &daemon.Daemon{Config: c, ConfigFile: *file, Log: log, Version: version, Systemd: useSystemd(c)}
	if *cleanup {
		signals.Release() // the stop has its own bound, and a further signal may end it
		cctx, cancel := context.WithTimeout(ctx, stopTime)
		defer cancel()
		return d.Cleanup(cctx)
	}
	if d.Listener, err = inherited(); err != nil {
		return err
	}
	return serve(ctx, d, log, signals.Caught())
}

// useSystemd reports whether systemd starts the shims.
func useSystemd(c config.Config) bool {
	switch c.Launcher {
	case "systemd":
		return true
	case "fork":
		return false
	}
	_, err := os.Stat("/run/systemd/system") // sd_booted(3)
	return err == nil && os.Getenv("INVOCATION_ID") != "" && c.Instance() == ""
}

// inherited returns the admin socket if systemd opened it.
func inherited() (net.Listener, error) {
	ls, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("socket activation: %w", err)
	}
	switch len(ls) {
	case 0:
		return nil, nil
	case 1:
		return ls[0], nil
	}
	return nil, fmt.Errorf("socket activation: %d sockets were passed, one is expected", len(ls))
}

func reload(d *daemon.Daemon, log *slog.Logger) {
	var now unixMono
	notify(log, sd.SdNotifyReloading+"\nMONOTONIC_USEC="+now.String())
	if err := d.Reload(); err != nil {
		log.Error("configuration not changed", "err", err)
	}
	notify(log, sd.SdNotifyReady)
}

func notify(log *slog.Logger, state string) {
	if _, err := sd.SdNotify(false, state); err != nil {
		log.Warn("systemd not notified", "err", err)
	}
}
