package tally

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/fusefs/view"
)

// book is a Tally with a clock, and what it has reported.
type book struct {
	*Tally
	now time.Time
	got []Report
}

func newBook() *book {
	b := &book{now: time.Unix(1e9, 0)}
	b.Tally = &Tally{Now: func() time.Time { return b.now }, Report: func(r Report) { b.got = append(b.got, r) }}
	return b
}

func (b *book) add(d view.Denial) {
	if r, due := b.Add(d); due {
		b.got = append(b.got, r)
	}
}

// pass lets time pass in steps of Run.
func (b *book) pass(d time.Duration) {
	for ; d > 0; d -= tick {
		b.now = b.now.Add(tick)
		b.step()
	}
}

func (b *book) sum() (n int) {
	for _, r := range b.got {
		n += r.Count
	}
	return n
}

func denied(path, rule string) view.Denial {
	return view.Denial{Op: "open-read", Path: path, Code: view.CodeUndeclaredRead, Rule: rule, Errno: "EACCES"}
}

func TestEqualRefusalsBecomeOneReport(t *testing.T) {
	b := newBook()
	start := b.now
	for range 1000 {
		b.add(denied("a", "r"))
		b.now = b.now.Add(time.Microsecond)
	}
	require.Len(t, b.got, 1, "the first is reported at once")
	require.Equal(t, 1, b.got[0].Count)
	b.pass(tick)
	require.Len(t, b.got, 2)
	require.Equal(t, 999, b.got[1].Count)
	require.Equal(t, start.Add(time.Microsecond), b.got[1].First)
	require.Equal(t, start.Add(999*time.Microsecond), b.got[1].Time)
	require.Empty(t, b.got[1].Others)

	// The longer it continues, the rarer it is reported. After a pause it is news.
	for range 600 {
		b.add(denied("a", "r"))
		b.pass(tick)
	}
	require.Less(t, len(b.got), 20)
	b.pass(3 * time.Minute)
	require.Empty(t, b.all, "it is over")
	require.Equal(t, 1600, b.sum())
	n := len(b.got)
	b.add(denied("a", "r"))
	require.Len(t, b.got, n+1)
}

// TestOneRefusalIsSeenAmongAHundredThousand, whatever the others are: equal, of one directory, of many directories by another
// rule, or of other kinds.
func TestOneRefusalIsSeenAmongAHundredThousand(t *testing.T) {
	odd, long := denied("secret/key", "deny secret/**"), strings.Repeat("long/", 200)
	for name, other := range map[string]func(i int) view.Denial{
		"equal":              func(int) view.Denial { return denied("a/b", "r") },
		"in its directory":   func(int) view.Denial { return denied("secret/other", "deny secret/**") },
		"in one directory":   func(i int) view.Denial { return denied(fmt.Sprint("flood/", i), "deny secret/**") },
		"in many, by a rule": func(i int) view.Denial { return denied(fmt.Sprint("d", i, "/", i), "r") },
		"of many operations": func(i int) view.Denial { d := denied(fmt.Sprint(i), "r"); d.Op = fmt.Sprint(i % 20); return d },
		"names": func(i int) view.Denial {
			return view.Denial{Op: "name", Path: fmt.Sprint(i, ".x.org"), Within: "x.org", Code: "EGRESS"}
		},
		"with long texts": func(i int) view.Denial { return denied(fmt.Sprint(long, i), "r") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook()
			for i := range 100_000 {
				b.add(other(i))
				if i == 77_777 {
					b.add(odd)
				}
				if i%100 == 0 { // 20,000 a second
					b.now = b.now.Add(5 * time.Millisecond)
				}
				if i%20_000 == 0 {
					b.step()
				}
			}
			b.pass(time.Minute)
			i := slices.IndexFunc(b.got, func(r Report) bool { return r.Path == odd.Path && r.Others == "" })
			require.GreaterOrEqual(t, i, 0, "it is reported by its name")
			require.Equal(t, 1, b.got[i].Count)
			b.Flush()
			require.Equal(t, 100_001, b.sum(), "the others are counted")
			require.Less(t, len(b.got), 2100, "and are few reports")
		})
	}
}

func TestWhatHasNoRoomIsCountedTogether(t *testing.T) {
	b := newBook()
	for i := range 500 {
		b.add(denied(fmt.Sprint("dir/", i), "r"))
	}
	const dirs = 5000
	for i := range dirs {
		b.add(denied(fmt.Sprint("dir", i, "/x"), "r"))
	}
	b.Flush()
	others := map[string]int{}
	for _, r := range b.got {
		if r.Others != "" {
			others[r.Others] = r.Count
		}
	}
	require.Equal(t, map[string]int{"in dir": 500 - share[exact], "by the same rule": dirs - (room[exact] - share[exact]) - (share[parent] - 1)}, others)
	require.Equal(t, 500+dirs, b.sum())
}

// Feature: multi-agent-workspaces, Property: whatever is refused, each refusal is in one report, the reports are bounded in
// any time, and so is the memory
func TestNoRefusalVanishes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBook()
		start, added := b.now, 0
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			dirs, files, n := rapid.IntRange(1, 2000).Draw(t, "directories"), rapid.IntRange(1, 3000).Draw(t, "files"), rapid.IntRange(1, 1000).Draw(t, "refusals")
			rules := rapid.IntRange(1, 400).Draw(t, "rules")
			for i := range n {
				d := denied(fmt.Sprint("d", i%dirs, "/", i%files), fmt.Sprint("r", i%rules))
				d.Count = i % 3
				added += max(d.Count, 1)
				b.add(d)
			}
			b.pass(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			require.LessOrEqual(t, b.bytes, maxBytes)
			for level := range code {
				require.LessOrEqual(t, b.number[level], room[level])
			}
			for k, n := range b.below {
				require.LessOrEqual(t, n, share[k.level-1])
			}
			require.Len(t, b.all, b.number[exact]+b.number[parent]+b.number[rule]+b.number[code])
			passed := b.now.Sub(start)
			require.LessOrEqual(t, len(b.got), burst+tickBurst+2*int(passed/every), "in a short time")
			require.LessOrEqual(t, len(b.got), 2*longBurst+2*int(passed/longEvery)+2, "in a long time")
		}
		b.Flush()
		require.Equal(t, added, b.sum())
		b.pass(10 * time.Minute)
		require.Empty(t, b.all)
		require.Empty(t, b.below)
		require.Zero(t, b.bytes)
	})
}

func TestRunSleepsWhileThereIsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []Report
		tl := &Tally{Now: time.Now, Report: func(r Report) { got = append(got, r) }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); tl.Run(ctx) }()
		for range 3 {
			tl.Add(denied("a", "r"))
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		require.Len(t, got, 1, "the first was the caller's to report")
		require.Equal(t, 2, got[0].Count)
		time.Sleep(time.Minute)
		synctest.Wait()
		tl.mu.Lock()
		require.Empty(t, tl.all)
		tl.mu.Unlock()
		tl.Add(denied("a", "r"))
		tl.Add(denied("a", "r"))
		cancel()
		<-done
		require.Len(t, got, 1)
		tl.Flush()
		require.Len(t, got, 2, "at the end nothing is left")
	})
}

func BenchmarkFlood(b *testing.B) {
	tl := &Tally{Now: time.Now, Report: func(Report) {}}
	paths := make([]view.Denial, 100_000)
	for i := range paths {
		paths[i] = denied(fmt.Sprint("d", i%300, "/", i), "r")
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		tl.Add(paths[i%len(paths)])
	}
}
