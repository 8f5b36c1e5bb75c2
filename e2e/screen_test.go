package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fullScreen draws as the programs of agents do: it moves the cursor over spaces instead of
// printing them, uses the alternate screen, and requests reports from the terminal.
const fullScreen = `printf '\033[?1049h\033[?1000;1006h\033[?2004h\033[?25l\033[>1u\033[2J\033[3;2H\033[1mDo\033[Cyou\033[Cwant\033[Cto\033[Cmake\033[Cthis\033[Cedit?\033[m\033[5;4H1.\033[CYes'; while read line; do printf '\033[7;2H%s\033[K' "$line"; done`

// TestAScreenIsShownAsItIs: watch shows what a program draws on its terminal, with its spaces and
// without its sequences, also after a restart of polisd and in a file. A client that attaches sees
// the screen, and gets its own terminal back afterwards.
func TestAScreenIsShownAsItIs(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	d.add("alice", "--", "sh", "-c", "stty -echo; echo before; "+fullScreen)
	d.must("agents", "start", "--program", "alice")
	want := "\n\n Do you want to make this edit?\n\n   1. Yes\n"
	d.eventually("the screen", func() bool { return d.must("agents", "watch", "alice") == want })
	require.Contains(t, d.must("--json", "agents", "watch", "alice"), `"line":" Do you want to make this edit?"`)
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	require.Equal(t, want, d.must("agents", "watch", "alice"), "the shim has it")
	out := d.follow("agents", "watch", "-f", "alice")
	d.eventually("the lines that stay", func() bool {
		return out.text() == "before\n Do you want to make this edit?\n   1. Yes\n"
	})

	term := d.terminal(project)
	modes := term.says("stty -g")
	term.types("polisctl agents attach alice\r")
	term.sees("\x1b[?1049h")
	term.sees("\x1b[0;1mDo ")
	term.types("\x10\x11")
	requireReset(t, term.sees("detached"))
	require.Equal(t, "0", term.says("echo $?"))
	// A signal that can be caught ends it as well.
	term.types("polisctl agents attach alice; echo sta''tus $?\r")
	term.sees("\x1b[0;1mDo ")
	d.signalChild(term, "polisctl", syscall.SIGTERM)
	requireReset(t, term.sees("status 143\r\n"))
	require.Equal(t, modes, term.says("stty -g"))
}

// requireReset requires that every mode which the program set is reset.
func requireReset(t *testing.T, out string) {
	t.Helper()
	for _, off := range []string{"\x1b[?1049l", "\x1b[?1000l", "\x1b[?1006l", "\x1b[?2004l", "\x1b[?25h", "\x1b[<1u", "\x1b[0m"} {
		require.Contains(t, out, off)
	}
}

// signalChild sends a signal to the program that the terminal's shell runs.
func (d *daemon) signalChild(term *terminal, name string, s syscall.Signal) {
	d.t.Helper()
	var pgrp int
	d.eventually(name+" has the terminal", func() bool {
		n, err := unix.IoctlGetInt(int(term.tty.Fd()), unix.TIOCGPGRP)
		pgrp = n
		comm, cerr := os.ReadFile(fmt.Sprintf("/proc/%d/comm", n))
		return err == nil && cerr == nil && strings.TrimSpace(string(comm)) == name
	})
	require.NoError(d.t, syscall.Kill(pgrp, s))
}

// TestWatchShowsALineAtOnce prints how long a line takes from the program to the
// person who watches: it has to be within 100 ms.
func TestWatchShowsALineAtOnce(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--", "sh", "-c", `stty -echo; echo ready; while read line; do date +%s%N; done`)
	d.must("agents", "start", "--program", "alice")
	out := d.follow("agents", "watch", "-f", "alice")
	d.eventually("its terminal does not echo", func() bool { return out.text() == "ready\n" })
	said := func() []string { return strings.Fields(out.text())[1:] }
	var worst, sum time.Duration
	const lines = 20
	for i := range lines {
		d.must("send", "alice", "now")
		var at time.Time
		require.Eventually(t, func() bool {
			at = time.Now()
			return len(said()) > i
		}, patience, time.Millisecond)
		n, err := strconv.ParseInt(said()[i], 10, 64)
		require.NoError(t, err, out.text())
		took := at.Sub(time.Unix(0, n))
		worst, sum = max(worst, took), sum+took
	}
	fmt.Fprintf(os.Stderr, "watch -f shows a line after %v on average, %v at worst (wanted: 100ms)\n", sum/lines, worst)
}

// TestAFloodOfSequencesIsBounded: a program that prints random bytes to its terminal for a while
// fills neither memory nor disk, and can be watched.
func TestAFloodOfSequencesIsBounded(t *testing.T) {
	d := startDaemon(t, options{config: "[limits]\nlog_mb = 1\n"})
	d.up()
	d.add("alice", "--", "sh", "-c", `head -c 4000000 /dev/urandom; printf '\030\033c\033[65535b\033[65535I\033[65535;65535H%s' end; sleep 1000`)
	d.must("agents", "start", "--program", "alice")
	d.eventually("the end of it", func() bool { return strings.Contains(d.must("agents", "watch", "alice"), "end") })
	for _, b := range []byte(d.must("agents", "watch", "alice")) {
		require.True(t, b >= 0x20 && b != 0x7f || b == '\n', "%#x", b)
	}
	a, _ := d.agent("alice")
	status := readFile(fmt.Sprintf("/proc/%d/status", a.ShimPID))
	var kb int
	for _, line := range strings.Split(status, "\n") {
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kb); err == nil {
			break
		}
	}
	require.Less(t, kb, 128<<10, "the shim's memory")
	fi, err := os.Stat(d.path("ws", ".polis", "logs", "alice", "output.log"))
	require.NoError(t, err)
	require.LessOrEqual(t, fi.Size(), int64(2<<20))
}
