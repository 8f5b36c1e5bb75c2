package main

import (
	"fmt"
	"slices"
	"strings"

	"polis/e2e/bench/corpus"
	"polis/e2e/bench/table"
	"polis/e2e/bench/work"
)

// size is the amount of work.
type size struct {
	only             []string // directories of the Go sources, none for all
	history, changed int
	long             int // commits of a branch to be listed
	agents           int // at once
	create           int
	few              int // files of the tree that are changed for the first time
	opens, passes    int
	bytes            int64 // of sequential work; mapped and random work take a quarter
	random           int
	memory           []string // of the first agent and of the others, in MB
}

var (
	full = size{history: 40, changed: 3000, long: 10000, agents: 10, create: 10000, few: 200, opens: 200, passes: 20,
		bytes: 1 << 30, random: 50000, memory: []string{"6144", "2048"}}
	small = size{only: []string{"bytes", "encoding", "fmt", "os", "strings"}, history: 6, changed: 200, long: 10000, agents: 3, create: 500, few: 20,
		opens: 50, passes: 4, bytes: 64 << 20, random: 5000, memory: []string{"1024", "512"}}
)

// A step is one request. A step with a row is timed for that row.
type step struct {
	row int
	work.Request
}

const untimed = -1

// A job makes the figures of one or more rows. before is done once in each column of each round.
// Then each step is done reps times, and the best time is used.
type job struct {
	rows          []table.Row
	before, after []work.Request
	each          []step
	reps          int
	reads         bool // and changes nothing, so that a read-only server can do it
	// atOnce lets every worker do it at the same time, after one worker did it alone
	atOnce bool
}

func program(argv ...string) work.Request { return work.Request{Op: "run", Argv: argv} }

// matching is a program whose exit status 1 means that nothing matched.
func matching(argv ...string) work.Request {
	return work.Request{Op: "run", Argv: argv, OK: []int{1}}
}

func inModule(r work.Request) work.Request {
	r.Name = corpus.Module
	return r
}

func ratio(name string, limit float64) table.Row {
	return table.Row{Name: name, Limit: limit, Kind: table.Ratio}
}

// beside returns the figures of bindfs and loopback on the machine on which the row's goal was set.
func beside(r table.Row, bindfs, loopback float64) table.Row {
	r.Peers = map[string]float64{"bindfs": bindfs, "loopback": loopback}
	return r
}

// reading repeats a request, once before it is timed.
func reading(row table.Row, r work.Request) job {
	return job{rows: []table.Row{row}, before: []work.Request{r}, each: []step{{0, r}}, reps: 3, reads: true}
}

var (
	status  = program("git", "status", "--porcelain")
	search  = matching("rg", "--no-config", "-F", "no such words anywhere")
	grep    = matching("grep", "-r", "--exclude-dir=.git", "-F", "no such words anywhere", ".")
	build   = inModule(program("go", "build", "./..."))
	readAll = work.Request{Op: "readall", Procs: 1}
)

func allJobs(s size) []job {
	return slices.Concat(readingJobs(s), writingJobs(s), dataJobs(s), togetherJobs(s))
}

func readingJobs(s size) []job {
	open := func(name string, limit, bindfs, loopback float64, write bool) job {
		return reading(beside(table.Row{Name: name, Ops: s.opens * s.passes, Limit: limit, Kind: table.Added}, bindfs, loopback),
			work.Request{Op: "open", N: s.opens, Passes: s.passes, Write: write})
	}
	jobs := []job{
		reading(ratio("git status", 0.95), status),
		{rows: []table.Row{ratio("git status after reading all", 1)}, before: []work.Request{status},
			each: []step{{untimed, readAll}, {0, status}}, reps: 3, reads: true},
		reading(beside(ratio("rg", 2.7), 10.2, 12.1), search),
		reading(beside(ratio("grep -r", 2.1), 6.7, 6.7), grep),
		reading(ratio("find", 0), program("find", ".", "-name", "no-such-name")),
		reading(ratio("git log", 0), program("git", "log", "--stat", "-n", "30", "{head}")),
		reading(ratio(fmt.Sprintf("git log of %d packed commits", s.long), 1.2), program("git", "log", "{long}")),
		reading(ratio("stat of known files", 1), work.Request{Op: "stat"}),
		open("open and close for reading", 10, 15, 32.2, false),
		open("open and close for writing", 10, 18.7, 32.9, true),
		reading(ratio("go build with nothing changed", 1), build),
	}
	for _, c := range []struct {
		procs                   int
		who                     string
		limit, bindfs, loopback float64
	}{{1, "one process", 4.5, 17.8, 15.7}, {2, "two processes", 0, 0, 0}, {8, "eight processes", 2.9, 12.7, 17.8}} {
		row := beside(ratio("read all files with "+c.who, c.limit), c.bindfs, c.loopback)
		jobs = append(jobs, reading(row, work.Request{Op: "readall", Procs: c.procs}))
	}
	return jobs
}

func writingJobs(s size) []job {
	gone := work.Request{Op: "remove", Name: "bench-out"}
	const few = 10
	commit := program("sh", "-ec", `git add -A && git commit -q -m change`)
	return []job{
		{rows: []table.Row{beside(ratio("untar", 5), 10.9, 9.8), beside(ratio("rm -rf", 3.5), 5.4, 5.4)}, reps: 2,
			before: []work.Request{gone}, after: []work.Request{gone},
			each: []step{
				{untimed, work.Request{Op: "mkdir", Name: "bench-out"}},
				{0, program("tar", "-xf", "{tar}", "-C", "bench-out")}, {1, program("rm", "-rf", "bench-out")},
			}},
		{rows: []table.Row{beside(ratio(fmt.Sprintf("create %d files", s.create), 3.5), 6.7, 7.5), beside(ratio(fmt.Sprintf("unlink %d files", s.create), 2.7), 4.7, 4.8)}, reps: 2,
			before: []work.Request{gone}, after: []work.Request{gone},
			each: []step{{0, work.Request{Op: "create", Name: "bench-out", N: s.create}}, {1, work.Request{Op: "unlink", Name: "bench-out", N: s.create}}}},
		{rows: []table.Row{beside(ratio(fmt.Sprintf("git checkout of %d changed files", s.changed), 2), 3.6, 3.1), beside(ratio("git checkout back", 2), 2.8, 2.9)}, reps: 2,
			before: []work.Request{status}, after: []work.Request{program("git", "checkout", "-q", "-f", "{branch}")},
			each: []step{{0, program("git", "checkout", "-q", "--detach", "{other}")}, {1, program("git", "checkout", "-q", "--detach", "{head}")}}},
		{rows: []table.Row{beside(ratio(fmt.Sprintf("git add and commit of %d files", s.changed), 1.8), 2.5, 3.1)}, reps: 2,
			before: []work.Request{program("git", "checkout", "-q", "--detach", "{head}")},
			after:  []work.Request{program("git", "reset", "-q", "--hard", "{head}"), program("git", "checkout", "-q", "-f", "{branch}")},
			each:   []step{{untimed, work.Request{Op: "append", N: s.changed, Text: "// round {round}\n"}}, {0, commit}}},
		{rows: []table.Row{ratio(fmt.Sprintf("git commit of %d files", few), 1.5)}, reps: 3,
			before: []work.Request{program("git", "checkout", "-q", "--detach", "{head}"), status},
			after:  []work.Request{program("git", "reset", "-q", "--hard", "{head}"), program("git", "checkout", "-q", "-f", "{branch}")},
			each: []step{{untimed, work.Request{Op: "append", N: few, Text: "// round {round}\n"}}, {untimed, program("git", "add", "-A")},
				{0, program("git", "commit", "-q", "-m", "change")}}},
	}
}

func dataJobs(s size) []job {
	gone := work.Request{Op: "remove", Name: "bench-out"}
	big := func(op string, size int64) work.Request {
		return work.Request{Op: op, Name: "bench-out", Size: size}
	}
	mb := s.bytes >> 20
	again := func(name string, before []work.Request, r work.Request) job {
		return job{rows: []table.Row{ratio(name, 1.05)}, before: append([]work.Request{gone}, before...), after: []work.Request{gone},
			each: []step{{0, r}}, reps: 3}
	}
	// An existing file would first be truncated, and its close would write to the disk. Memory that
	// the host has reclaimed is slow once.
	fresh := func(name string, r work.Request) job {
		j := again(name, nil, r)
		j.each = []step{{untimed, gone}, {0, r}}
		return j
	}
	random := func(name string, write bool) job {
		r := big("random", s.bytes/4)
		r.N, r.Write = s.random, write
		return again(name, []work.Request{big("seqwrite", s.bytes/4), big("seqread", s.bytes/4)}, r)
	}
	return []job{
		fresh(fmt.Sprintf("sequential write of %d MiB", mb), big("seqwrite", s.bytes)),
		again(fmt.Sprintf("sequential read of %d MiB", mb), []work.Request{big("seqwrite", s.bytes), big("seqread", s.bytes)}, big("seqread", s.bytes)),
		fresh(fmt.Sprintf("write of %d MiB through mmap", mb/4), big("mmap", s.bytes/4)),
		random("random reads of 4 KiB", false),
		random("random writes of 4 KiB", true),
	}
}

// togetherJobs are those of several agents at once.
func togetherJobs(s size) []job {
	var jobs []job
	for _, c := range []struct {
		name string
		work.Request
	}{{"git status", status}, {"rg", search}, {"go build", build}} {
		jobs = append(jobs, job{
			rows:   []table.Row{{Name: fmt.Sprintf("%d at once: %s", s.agents, c.name), AtOnce: s.agents, Limit: 1.3, Kind: table.Growth}},
			before: []work.Request{c.Request}, each: []step{{0, c.Request}}, reps: 2, atOnce: true,
		})
	}
	return jobs
}

// builds reports whether a job needs Go's build cache.
func (j job) builds() bool {
	return slices.ContainsFunc(j.each, func(s step) bool { return s.Name == corpus.Module })
}

// choose keeps the jobs with a row that one of the words names: by its whole name or, if no row has
// that name, by a part of it.
func choose(jobs []job, only []string) ([]job, error) {
	if len(only) == 0 {
		return jobs, nil
	}
	named := func(j job, match func(name string) bool) bool {
		return slices.ContainsFunc(j.rows, func(r table.Row) bool { return match(r.Name) })
	}
	var chosen []job
	for _, j := range jobs {
		if slices.ContainsFunc(only, func(word string) bool {
			whole := func(name string) bool { return name == word }
			if slices.ContainsFunc(jobs, func(other job) bool { return named(other, whole) }) {
				return named(j, whole)
			}
			return named(j, func(name string) bool { return strings.Contains(name, word) })
		}) {
			chosen = append(chosen, j)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("BENCH_ONLY is %q: no row has such a name (bench --list shows them)", strings.Join(only, ","))
	}
	return chosen, nil
}
