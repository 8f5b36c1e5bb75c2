// An idle shim must not wake up. By default Go's runtime wakes every second to read how many
// processors it may use.
//go:debug updatemaxprocs=0

// Command polis-shim serves one agent. polisd starts it; see polis-shim(8).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"polis/cgroup/sandbox"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/host/launcher"
	"polis/daemon/host/private"
	"polis/daemon/shim"
	"polis/daemon/shim/doctor"
	"polis/daemon/store"
	"polis/daemon/store/layout"
	"polis/internal/escape"
)

func main() {
	if sandbox.IsInit() {
		sandbox.Main()
		return
	}
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "polis-shim: "+escape.Lines(err.Error()))
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	syscall.Umask(private.Umask) // also that of programs which enter the sandbox
	fs := flag.NewFlagSet("polis-shim", flag.ContinueOnError)
	file := fs.String("spec", "", "what to serve, a `FILE` that polisd wrote")
	cleanup := fs.Bool("cleanup", false, "remove what a dead shim left, and exit")
	examine := fs.Bool("doctor", false, "print what this machine can do for polis, as JSON, and exit")
	probe := fs.Bool(doctor.ChildFlag, false, "make one probe for --doctor (internal)")
	conf := fs.String("config", config.DefaultFile, "with --doctor: configuration `FILE`")
	statfs := fs.String(launcher.StatfsFlag, "", "ask the file system at `DIR` for a sign of life, and exit (internal)")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	switch {
	case *statfs != "":
		var st syscall.Statfs_t
		return syscall.Statfs(*statfs, &st)
	case *probe:
		return doctor.Child(ctx, os.Stdout, fs.Args())
	case *examine && fs.NArg() == 0:
		sctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		return json.NewEncoder(os.Stdout).Encode((&doctor.Doctor{ConfigFile: *conf}).Run(sctx))
	}
	if *file == "" || fs.NArg() > 0 {
		return errors.New("give --spec FILE; polis-shim is started by polisd")
	}
	spec, err := readSpec(*file)
	if err != nil {
		if *cleanup && errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	if *cleanup {
		cctx, cancel := context.WithTimeout(ctx, 25*time.Second)
		defer cancel()
		err := shim.Cleanup(cctx, spec)
		if spec.Delegated {
			err = errors.Join(err, (&launcher.Systemd{}).ClearWeights(spec.Agent))
		}
		return err
	}
	// Package net/http logs here what a service sends without a request, which can have a key, and without a bound.
	stdlog.SetOutput(io.Discard)
	log := shim.NewLog(spec.RunDir).With("agent", spec.Agent)
	sctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if spec.Check != nil {
		return shim.RunCheck(sctx, spec, log)
	}
	return serve(sctx, spec, log)
}

func serve(ctx context.Context, spec wire.Spec, log *slog.Logger) error {
	s := &shim.Shim{Spec: spec, Log: log}
	octx, cancel := context.WithTimeout(ctx, 25*time.Second)
	err := s.Open(octx)
	cancel()
	if err != nil {
		return errors.Join(err, report(spec, err))
	}
	if _, err := sd.SdNotify(false, sd.SdNotifyReady+"\nSTATUS=serving agent "+spec.Agent); err != nil {
		log.Warn("systemd not notified", "err", err)
	}
	if err = s.Serve(ctx); err != nil {
		err = errors.Join(err, report(spec, err)) // the agent's state shows it
	}
	bound := time.Duration(spec.StopGrace) + 40*time.Second
	// The unit's own bound is for the default grace (sd_notify(3)).
	if _, nerr := sd.SdNotify(false, fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", sd.SdNotifyStopping, bound.Microseconds())); nerr != nil {
		log.Warn("systemd not notified", "err", nerr)
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	return errors.Join(err, s.Close(cctx))
}

// report writes the reason of a failed start to the file that polisd reads.
func report(spec wire.Spec, err error) error {
	b, merr := json.Marshal(api.AsError(err))
	if merr != nil {
		return merr
	}
	path := layout.ShimError(spec.RunDir)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return fmt.Errorf("report the failure: %w", err)
	}
	return os.Rename(path+".new", path)
}

func readSpec(file string) (wire.Spec, error) {
	var spec wire.Spec
	if err := store.ReadSummed(file, &spec); err != nil {
		return spec, fmt.Errorf("read spec: %w", err)
	}
	return spec, api.CheckName(spec.Agent)
}
