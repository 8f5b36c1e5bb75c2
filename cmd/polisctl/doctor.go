package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) doctorCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check what this machine supports",
		Long: `Check the kernel, FUSE and passthrough, namespaces, network, control groups,
git, systemd, disk, clock and configuration, and show what is missing, the effect
of that and how to fix it. Nothing on the machine is changed.

If polisd runs, it makes the checks. Otherwise polis-shim makes them, which needs root.
The exit status is 1 if something that agents need is missing.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.call(cmd, 3*time.Minute, func(ctx context.Context, c *client.Client) error {
				rep, err := c.Doctor(ctx)
				if api.CodeOf(err) == api.CodeUnavailable {
					rep, err = examine(ctx, err)
				}
				if err != nil {
					return err
				}
				if err := a.show(view{json: rep, names: names(rep), human: func(p *page) { doctorPage(p, rep) }}); err != nil {
					return err
				}
				if rep.Worst() == api.CheckFail {
					return childStatus(exitFailure)
				}
				return nil
			})
		},
	}
}

// names are the checks in which something is wrong.
func names(rep api.DoctorReport) []string {
	var out []string
	for _, c := range rep.Checks {
		if c.State != api.CheckOK {
			out = append(out, c.Name)
		}
	}
	return out
}

func doctorPage(p *page, rep api.DoctorReport) {
	colors := map[api.CheckState]paint{api.CheckOK: green, api.CheckWarn: yellow, api.CheckFail: red}
	rows := make([][]cell, 0, len(rep.Checks))
	for _, c := range rep.Checks {
		rows = append(rows, []cell{{string(c.State), colors[c.State]}, {text: c.Name}, {text: c.Found}})
	}
	p.table("nothing was checked", []string{"STATE", "CHECK", "FOUND"}, rows)
	for _, c := range rep.Checks {
		if c.State == api.CheckOK {
			continue
		}
		p.line("")
		p.line("%s: %s", c.Name, c.Cost)
		if c.Fix != "" {
			p.line("  what to do: %s", c.Fix)
		}
		if c.Command != "" {
			p.command("  command:    ", c.Command) // a wrapped line would be two commands
		}
		if c.NoCommand != "" {
			p.line("  no command does it: %s", c.NoCommand)
		}
	}
}

// examine makes polis-shim examine the machine if polisd does not run.
func examine(ctx context.Context, unreachable error) (api.DoctorReport, error) {
	var rep api.DoctorReport
	self, err := os.Executable()
	if err != nil {
		return rep, api.Errorf(api.CodeInternal, "find own program: %w", err)
	}
	program := ""
	for _, p := range []string{filepath.Join(filepath.Dir(self), "polis-shim"), "/usr/lib/polis/polis-shim", "/usr/local/lib/polis/polis-shim"} {
		if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() {
			program = p
			break
		}
	}
	if program == "" {
		return rep, unreachable
	}
	cmd := exec.CommandContext(ctx, program, "--doctor") //nolint:forbidigo // our own program, when there is no daemon to ask
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return rep, api.Errorf(api.CodeInternal, "examine the machine: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &rep); err != nil {
		return rep, api.Errorf(api.CodeInternal, "examine the machine: %w", err)
	}
	return rep, nil
}
