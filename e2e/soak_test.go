package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// traces is everything on the host that belongs to one polisd and its agents.
type traces struct {
	Mounts, Namespaces, Links, Rules, Groups, Sockets, Processes, Files []string
	Descriptors                                                         int
}

// instance is what the names of this daemon's link, table and groups end in.
func (d *daemon) instance() string {
	d.t.Helper()
	m := regexp.MustCompile(`link=plb([0-9a-f]+)`).FindStringSubmatch(readFile(d.path("polisd.log")))
	require.NotNil(d.t, m, "the log names the bridge")
	return m[1]
}

// traces searches for the present traces. The kernel lists the groups that agents leave empty. The
// test's directory and the daemon's own names find everything else.
func (d *daemon) traces() traces {
	d.t.Helper()
	id := d.instance()
	t := traces{Mounts: d.mounts(), Groups: glob("/sys/fs/cgroup/*/polis_" + id + "/*"), Files: below(d.path("run"))}
	if strings.Contains(readFile("/proc/self/mounts"), " /sys/fs/cgroup cgroup2 ") {
		t.Groups = glob("/sys/fs/cgroup/polis_" + id + "/*")
	}
	t.Groups = slices.DeleteFunc(t.Groups, func(p string) bool { fi, err := os.Stat(p); return err != nil || !fi.IsDir() })
	ours := map[string]bool{}
	for _, dir := range glob("/proc/[0-9]*") {
		if cmd := readFile(filepath.Join(dir, "cmdline")); strings.Contains(cmd, d.dir) || strings.Contains(readFile(filepath.Join(dir, "cgroup")), "/polis_"+id) {
			t.Processes = append(t.Processes, strings.ReplaceAll(cmd, "\x00", " "))
			for _, ns := range []string{"mnt", "net", "pid", "ipc", "uts", "cgroup"} {
				if link, err := os.Readlink(filepath.Join(dir, "ns", ns)); err == nil {
					ours[link] = true
				}
			}
		}
	}
	for ns := range ours {
		t.Namespaces = append(t.Namespaces, ns)
	}
	for _, alias := range glob("/sys/class/net/*/ifalias") {
		if name := filepath.Base(filepath.Dir(alias)); name == "plb"+id || strings.Contains(readFile(alias), "plb"+id) {
			t.Links = append(t.Links, name)
		}
	}
	rules, err := exec.CommandContext(d.t.Context(), "nft", "list", "ruleset").Output()
	require.NoError(d.t, err)
	if _, table, ok := strings.Cut(string(rules), "polis_"+id+" {"); ok {
		table, _, _ = strings.Cut(table, "\n}")
		t.Rules = strings.Split(table, "\n")
	}
	for line := range strings.Lines(readFile("/proc/net/unix")) {
		if i := strings.Index(line, d.dir); i >= 0 {
			t.Sockets = append(t.Sockets, strings.TrimSpace(line[i:]))
		}
	}
	if d.cmd.ProcessState == nil {
		t.Descriptors = len(glob(fmt.Sprintf("/proc/%d/fd/*", d.cmd.Process.Pid)))
	}
	for _, l := range []*[]string{&t.Mounts, &t.Namespaces, &t.Links, &t.Groups, &t.Sockets, &t.Processes} {
		slices.Sort(*l)
	}
	return t
}

// below is every name in a directory, but for polisd's own files.
func below(dir string) []string {
	var out []string
	_ = filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error { //nolint:errcheck // what went while we looked is not there
		if err == nil && p != dir {
			out = append(out, p)
		}
		return nil
	})
	return out
}

// life is an agent from its start to its end: it runs, commits, listens, is reached from the host,
// and leaves processes that resist their end.
func (d *daemon) life(name string) error {
	do := func(args ...string) (string, error) {
		r := d.ctl(args...)
		if r.code != 0 {
			return "", fmt.Errorf("polisctl %s: %s", strings.Join(args, " "), r)
		}
		return r.stdout, nil
	}
	if _, err := do("agents", "add", name, "--base", "custom", "--memory", "256", "--port", "8080"); err != nil {
		return err
	}
	file := name + ".txt" // one that no other agent has locked
	script := `echo mine > ` + file + `
git add ` + file + `
git -c user.name=a -c user.email=a@b commit -q -m mine
git status --porcelain
setsid sh -c 'trap "" TERM HUP; sleep 7777 & wait' >/dev/null 2>&1 </dev/null &
setsid python3 -m http.server 8080 --bind 127.0.0.1 >/dev/null 2>&1 </dev/null &`
	if _, err := do("agents", "exec", name, "--", "sh", "-ec", script); err != nil {
		return err
	}
	port := 0
	for p, m := range d.ports(name) {
		if p == 8080 {
			port = m.External
		}
	}
	if err := reach(port, file); err != nil {
		return fmt.Errorf("agent %s: %w", name, err)
	}
	_, err := do("agents", "remove", name, "--force")
	return err
}

// reach waits until a file is served on a port.
func reach(port int, file string) error {
	var err error
	for range 200 {
		var c net.Conn
		if c, err = net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second); err == nil {
			_ = c.SetDeadline(time.Now().Add(2 * time.Second))
			_, werr := c.Write([]byte("GET /" + file + " HTTP/1.0\r\n\r\n"))
			b, rerr := io.ReadAll(c)
			c.Close()
			if err = errors.Join(werr, rerr); err == nil {
				if strings.Contains(string(b), " 200 OK") {
					return nil
				}
				err = fmt.Errorf("the answer is %q", b)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("port %d is not reached: %w", port, err)
}

// TestSoakLeavesTheHostAsItWas makes, uses and removes agents, several at a time. After every round
// the host must be as before the first: mounts, namespaces, links, rules, control groups, sockets,
// processes, files and polisd's descriptors. The long version: POLIS_SOAK=10 POLIS_AGENTS=50.
func TestSoakLeavesTheHostAsItWas(t *testing.T) {
	rounds, agents := count(t, "POLIS_SOAK", 1), count(t, "POLIS_AGENTS", 8)
	d := startDaemon(t, options{config: fmt.Sprintf("max_agents = %d\n", agents+2)})
	d.up()
	// One life before, for what is made once and stays.
	require.NoError(t, d.life("first"))
	settled := func() traces {
		time.Sleep(100 * time.Millisecond) // connections of polisctl end
		return d.traces()
	}
	// What polisd reads of an agent's shim it closes a second after the agent's end.
	before := settled()
	for same := 0; same < 30; same++ {
		if now := settled(); fmt.Sprint(now) != fmt.Sprint(before) {
			before, same = now, 0
		}
	}
	require.NotEmpty(t, before.Links, "the bridge")
	require.NotEmpty(t, before.Rules)
	require.Empty(t, before.Mounts)
	for round := range rounds {
		began := time.Now()
		work := make(chan string)
		errs := make(chan error, agents)
		var wg sync.WaitGroup
		for range min(agents, 5) {
			wg.Go(func() {
				for name := range work {
					errs <- d.life(name)
				}
			})
		}
		for i := range agents {
			work <- fmt.Sprintf("soak%d", i)
		}
		close(work)
		wg.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		var after traces
		d.eventually("the host is as it was", func() bool {
			after = settled()
			return fmt.Sprint(after) == fmt.Sprint(before)
		})
		require.Equal(t, before, after)
		t.Logf("round %d: %d agents in %s; polisd has %d descriptors", round+1, agents, time.Since(began).Round(time.Millisecond), after.Descriptors)
	}
	d.stop()
	after := d.traces()
	after.Files = slices.DeleteFunc(after.Files, func(p string) bool { return filepath.Base(p) == "last-event" })
	require.Equal(t, traces{Groups: after.Groups[:0]}, after, "after a stop there is nothing of it")
}
