package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/e2e/bench/corpus"
	"polis/e2e/bench/table"
	"polis/e2e/bench/work"
)

func TestRowsHaveNamesOfTheirOwnAndAreTimedOnce(t *testing.T) {
	for _, s := range []size{full, small} {
		seen := map[string]bool{}
		for _, j := range append(allJobs(s), layersJobs(s)...) {
			timed := make([]int, len(j.rows))
			for _, r := range j.rows {
				require.False(t, seen[r.Name], "%q is there twice", r.Name)
				require.NotContains(t, r.Name, ",", "BENCH_ONLY has commas between names")
				seen[r.Name] = true
			}
			for _, st := range j.each {
				if st.row != untimed {
					timed[st.row]++
				}
			}
			for i, n := range timed {
				require.Equal(t, 1, n, j.rows[i].Name)
			}
			require.Positive(t, j.reps)
		}
	}
}

func TestChoose(t *testing.T) {
	all := allJobs(full)
	for _, c := range []struct {
		name string
		only []string
		want []string // one row of each job
	}{
		{"one word", []string{"untar"}, []string{"untar"}},
		{"second row of a job", []string{"rm -rf"}, []string{"untar"}},
		{"two words", []string{"find", "mmap"}, []string{"find", "through mmap"}},
		{"whole name before a part of one", []string{"git status"}, []string{"git status"}},
		{"part of some", []string{"at once: "}, []string{"10 at once", "10 at once", "10 at once"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			jobs, err := choose(all, c.only)
			require.NoError(t, err)
			require.Len(t, jobs, len(c.want))
			for i, w := range c.want {
				require.Contains(t, jobs[i].rows[0].Name, w)
			}
		})
	}
	jobs, err := choose(all, nil)
	require.NoError(t, err)
	require.Len(t, jobs, len(all))
	_, err = choose(all, []string{"no such row"})
	require.ErrorContains(t, err, "--list")
}

func TestParse(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	o, err := parse(nil, env())
	require.NoError(t, err)
	require.Equal(t, 3, o.rounds)
	o, err = parse([]string{"--goals"}, env("BENCH_QUICK", "1", "BENCH_ONLY", "a, b c,,"))
	require.NoError(t, err)
	require.Equal(t, 1, o.rounds)
	require.True(t, o.goals && o.quick)
	require.Equal(t, []string{"a", "b c"}, o.only)
	for _, bad := range []string{"0", "x", "-1", "1000"} {
		_, err := parse(nil, env("BENCH_ROUNDS", bad))
		require.ErrorContains(t, err, "BENCH_ROUNDS")
	}
	_, err = parse([]string{"more"}, env())
	require.ErrorContains(t, err, "unexpected")
}

func TestListNeedsNothing(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run([]string{"--list"}, strings.NewReader(""), &out, io.Discard))
	require.Contains(t, out.String(), "git status\n")
}

func TestEveryPlaceholderIsFilled(t *testing.T) {
	b := &bed{corpus: corpus.Corpus{Head: "h", Other: "o"}}
	c := &column{name: table.Native, trees: []string{"/t"}, branches: []string{"main"}}
	check := func(r work.Request) {
		r = b.fill(r, c, 0, 7)
		require.Equal(t, "/t", r.Dir)
		require.NotContains(t, r.Text+strings.Join(r.Argv, " "), "{")
	}
	for _, j := range append(allJobs(full), layersJobs(full)...) {
		for _, st := range j.each {
			check(st.Request)
		}
		for _, r := range append(j.before, j.after...) {
			check(r)
		}
	}
	require.Equal(t, "// round 7\n", b.fill(work.Request{Text: "// round {round}\n"}, c, 0, 7).Text)
}

func TestBetterKeepsTheBestOfEach(t *testing.T) {
	s := func(together, alone time.Duration) table.Sample {
		return table.Sample{Figure: table.Figure{Wall: together}, Single: &table.Figure{Wall: alone}}
	}
	got := better(better(table.Sample{}, s(30, 5)), s(20, 9))
	require.EqualValues(t, 20, got.Wall)
	require.EqualValues(t, 5, got.Single.Wall)
}
