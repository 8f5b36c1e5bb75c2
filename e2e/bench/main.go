package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"polis/e2e/bench/table"
	"polis/e2e/bench/work"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are flags, and the environment for use through make.
type options struct {
	bin, dir              string
	rounds                int
	only                  []string
	quick                 bool
	json, markdown, goals bool
	list, layers          bool
}

func parse(args []string, getenv func(string) string) (options, error) {
	o := options{rounds: 3, quick: getenv("BENCH_QUICK") == "1"}
	if o.quick {
		o.rounds = 1
	}
	if s := getenv("BENCH_ROUNDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 100 {
			return o, fmt.Errorf("BENCH_ROUNDS is %q: it must be a number from 1 to 100", s)
		}
		o.rounds = n
	}
	for _, s := range strings.Split(getenv("BENCH_ONLY"), ",") {
		if s = strings.TrimSpace(s); s != "" {
			o.only = append(o.only, s)
		}
	}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.bin, "bin", "bin", "`directory` of polisd, polis-shim and polisctl")
	f.StringVar(&o.dir, "dir", "/var/tmp", "`directory` on the file system to measure")
	f.BoolVar(&o.json, "json", false, "print every figure as JSON")
	f.BoolVar(&o.markdown, "markdown", false, "print the table for a document")
	f.BoolVar(&o.goals, "goals", false, "print the goals and whether they are met")
	f.BoolVar(&o.list, "list", false, "print the names of the rows, for BENCH_ONLY")
	f.BoolVar(&o.layers, "layers", false, "measure worktrees that share a base tree: with the view above the overlay (polis), with the overlay above the view (above), and the kernel's overlay alone (overlay)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, nil
}

func run(args []string, in io.Reader, out, progress io.Writer) error {
	if len(args) == 1 && args[0] == "worker" {
		return work.Serve(in, out)
	}
	if len(args) == 1 && args[0] == "reader" {
		return work.Read(in, out)
	}
	o, err := parse(args, os.Getenv)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	size := full
	if o.quick {
		size = small
	}
	all := allJobs(size)
	if o.layers {
		all = append(all, layersJobs(size)...)
	}
	jobs, err := choose(all, o.only)
	if err != nil {
		return err
	}
	if o.list {
		for _, j := range jobs {
			for _, r := range j.rows {
				fmt.Fprintln(out, r.Name)
			}
		}
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if o.json || o.markdown || o.goals {
		// The table for people is printed beside the document.
		return measure(ctx, o, size, jobs, progress, progress, out)
	}
	return measure(ctx, o, size, jobs, out, progress, out)
}

// measure makes the bed, runs the jobs, and removes the bed in every case.
func measure(ctx context.Context, o options, s size, jobs []job, watch, progress, out io.Writer) (err error) {
	b := &bed{bin: o.bin, layers: o.layers, size: s, say: func(format string, a ...any) { fmt.Fprintf(progress, format+"\n", a...) }}
	for _, j := range jobs {
		if j.atOnce {
			b.agents = s.agents
		}
		b.builds = b.builds || j.builds()
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.open(ctx, o.dir); err != nil {
		return err
	}
	report := table.Report{Machine: machine(o.dir), Load: "load average at the start " + load(), Corpus: b.describe(), Subject: "polis"}
	for _, c := range b.columns {
		report.Columns = append(report.Columns, c.name)
	}
	fmt.Fprintf(watch, "%s\n%s\n%s; %d rounds\n%s\n\n", report.Machine, report.Corpus, report.Load, o.rounds, table.Legend)
	table.Head(watch, report.Columns)
	for _, j := range jobs {
		rows, err := b.rounds(ctx, j, o.rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", j.rows[0].Name, err)
		}
		for _, r := range rows {
			table.Line(watch, report.Columns, r)
		}
		report.Rows = append(report.Rows, rows...)
	}
	if err := b.verify(ctx); err != nil {
		return err
	}
	report.Load += ", at the end " + load()
	return write(o, report, out)
}

func write(o options, r table.Report, out io.Writer) error {
	if o.markdown {
		fmt.Fprintln(out)
		r.Markdown(out)
	}
	if o.goals {
		fmt.Fprintln(out)
		met, all := r.Goals(out)
		fmt.Fprintf(out, "\n%d of %d met\n", met, all)
	}
	if o.json {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	return nil
}
