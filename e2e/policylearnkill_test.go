package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// uses is the file with what an agent used in its newest run; "" if there is none yet.
func (d *daemon) uses(agent string) string {
	all := glob(d.path("*", ".receipts", "*", "agents", agent, "uses-*.jsonl"))
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// TestRecordingWhilePolisdAndTheShimAreKilled: at each step of storing what an agent uses, and at any moment, a kill
// of polisd costs nothing of the record; an incomplete last entry is cut, and the answer contains that. A killed
// shim costs the last moments, which the answer contains, too.
func TestRecordingWhilePolisdAndTheShimAreKilled(t *testing.T) {
	d := startDaemon(t, options{failpoints: true, config: "[agents.alice]\npolicy = \"record\"\n"})
	d.up()
	d.add("alice")
	const files = 30
	// work begins a script that continues without polisd, and makes files in a directory of its own.
	work := func(dir string) result {
		return d.exec("alice", "sh", "-c", fmt.Sprintf("mkdir %[1]s; nohup setsid sh -c 'for i in $(seq %[2]d); do echo x >%[1]s/f$i; sleep 0.01; done; echo x >%[1]s.done' >/dev/null 2>&1 &", dir, files))
	}
	whole := func(dir string) {
		t.Helper()
		d.eventually("everything in "+dir+" is recorded", func() bool {
			file := d.uses("alice")
			return file != "" && strings.Contains(readFile(file), fmt.Sprintf("%q", dir+".done"))
		})
		text := readFile(d.uses("alice"))
		for i := range files {
			require.Contains(t, text, fmt.Sprintf("%q", fmt.Sprintf("%s/f%d", dir, i+1)))
		}
		l := d.learned("alice")
		require.Empty(t, l.Incomplete)
		require.Subset(t, l.Policy.Write, []string{"/" + dir + "/**", "/" + dir + ".done"})
	}
	work("a")
	whole("a")
	d.dieAt("policyrecord:written", func() result { return work("b") })
	whole("b")
	for i := range 2 {
		dir := fmt.Sprint("c", i)
		work(dir)
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		require.Error(t, d.signal(syscall.SIGKILL))
		if i == 1 { // an incomplete entry, as a crash of the machine leaves it
			f, err := os.OpenFile(d.uses("alice"), os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteString(`{"p":"c1/f`)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		d.start()
		whole(dir)
	}
	l := d.learned("alice")
	require.GreaterOrEqual(t, l.Runs[0].Cut, int64(10))
	require.Contains(t, l.TOML, "of an entry that polisd had not completed when it ended were cut")
	require.Contains(t, readFile(d.path("polisd.log")), "incomplete entry of what an agent uses cut")

	work("e")
	require.NoError(t, syscall.Kill(d.shim("alice"), syscall.SIGKILL))
	d.eventually("the agent has failed", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusError })
	d.must("agents", "start", "alice")
	d.dieAt("policyrecord:new", func() result { return d.exec("alice", "sh", "-c", "echo x > first.txt") })
	d.sh("alice", "echo x > last.txt")
	d.eventually("the next run is recorded", func() bool {
		l = d.learned("alice")
		return strings.Contains(strings.Join(l.Policy.Write, "\n"), "/last.txt")
	})
	require.Contains(t, strings.Join(l.Incomplete, "\n"), "run 1: it ended unexpectedly")
	require.Subset(t, l.Policy.Write, []string{"/a/**", "/b/**", "/c0/**", "/c1/**", "/first.txt", "/last.txt"})
	d.must("agents", "stop", "alice")
	require.NotContains(t, strings.Join(d.learned("alice", "--run", "last").Incomplete, "\n"), "unexpectedly")
}

// TestACheckPredictsWhatARoleRefuses: an agent with a role that was learned from a script runs the script without a
// refusal, and of a script that does more exactly what policy check has named is refused.
func TestACheckPredictsWhatARoleRefuses(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nhold = \"close\"\ntemp_files = false\n[roles.record]\npolicy = \"record\"\n"})
	d.up()
	const script = "cat src/a.txt > /dev/null; echo more >> docs/guide.md; mkdir out; echo 1 > out/one; chmod 600 out/one; "
	const more = script + "cat README.md; echo y > src/b.txt; echo z > out/two; rm main.txt; mv docs/guide.md docs/moved.md; ln -s x linked; mkdir other; truncate -s 0 .gitignore; true"
	d.add("first", "--role", "record")
	d.sh("first", script)
	d.must("agents", "stop", "first")
	l := d.learned("first", "--role", "learned")
	require.Empty(t, l.Incomplete)
	d.reconfigure(l.TOML, "learned")
	require.Empty(t, d.checked("learned", "first").Refused)

	d.add("more", "--role", "record")
	d.sh("more", more)
	d.must("agents", "stop", "more")
	var predicted []string
	for _, r := range d.checked("learned", "more").Refused {
		predicted = append(predicted, fmt.Sprintf("%s write=%v", r.Path, r.Write))
	}
	require.ElementsMatch(t, []string{"README.md write=false", "src/b.txt write=true", "out/two write=true", "main.txt write=true", "docs/moved.md write=true",
		"linked write=true", "other write=true", ".gitignore write=true"}, predicted)

	d.add("same", "--role", "learned")
	d.sh("same", script)
	require.Empty(t, d.refusals("same"))
	d.add("beyond", "--role", "learned")
	d.exec("beyond", "sh", "-c", more)
	var refused []string
	for _, w := range d.refusals("beyond") {
		require.Contains(t, []api.Code{api.CodeUndeclaredRead, api.CodeUndeclaredWrite}, w.Code, "%+v", w)
		refused = append(refused, fmt.Sprintf("%s write=%v", w.Path, w.Code == api.CodeUndeclaredWrite))
	}
	require.ElementsMatch(t, predicted, refused)
}
