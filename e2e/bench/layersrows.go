package main

import (
	"fmt"

	"polis/e2e/bench/table"
	"polis/e2e/bench/work"
)

// layersJobs are the rows in which files of a base tree change for the first time. An overlay copies such
// a file once, and what git restores is a copy too: each round has other files.
func layersJobs(s size) []job {
	each := func(name string) table.Row {
		return table.Row{Name: name, Ops: s.few, Kind: table.Added}
	}
	files := func(op string, skip int) work.Request {
		return work.Request{Op: op, N: s.few, Skip: skip, Text: "// round {round}\n"}
	}
	sh := func(script string) work.Request { return program("sh", "-ec", script) }
	restore := []work.Request{program("git", "reset", "-q", "--hard", "{head}")}
	gone := work.Request{Op: "remove", Name: "bench-out"}
	const thousand = 1000
	return []job{
		{rows: []table.Row{each("first change of a tracked file"), each("next change of it")}, reps: 1, before: []work.Request{status, {Op: "stat"}}, after: restore,
			each: []step{{0, files("append", 1)}, {1, files("append", 1)}}},
		{rows: []table.Row{each("unlink of a tracked file")}, reps: 1, before: []work.Request{{Op: "stat"}}, after: restore,
			each: []step{{0, files("tracked", 20)}}},
		{rows: []table.Row{ratio("rm -rf of a tracked directory", 0)}, reps: 1, before: []work.Request{status}, after: restore,
			each: []step{{0, sh(`set -- src/runtime src/net src/crypto src/go src/internal; shift $(({round} % 5)); rm -rf "$1"`)}}},
		{rows: []table.Row{ratio("sed -i of tracked files", 0)}, reps: 1, before: []work.Request{status}, after: restore,
			each: []step{{0, sh(fmt.Sprintf(`git ls-files '*.go' | awk 'NR %% 40 == {round} + 1' | head -n %d | xargs sed -i 's/^package/package /'`, s.few))}}},
		{rows: []table.Row{ratio(fmt.Sprintf("create %d files", thousand), 0), ratio(fmt.Sprintf("unlink %d files", thousand), 0)}, reps: 2,
			before: []work.Request{gone}, after: []work.Request{gone},
			each: []step{{0, work.Request{Op: "create", Name: "bench-out", N: thousand}}, {1, work.Request{Op: "unlink", Name: "bench-out", N: thousand}}}},
	}
}
