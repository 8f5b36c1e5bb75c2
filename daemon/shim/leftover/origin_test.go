package leftover

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tree starts a shell that starts a process, which it returns together with the shell.
func (f *family) tree() (head, child int) {
	f.t.Helper()
	head = f.start("sleep 100 & wait")
	require.Eventually(f.t, func() bool {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(head) + "/task/" + strconv.Itoa(head) + "/children")
		if err == nil {
			child, err = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		return err == nil
	}, 30*time.Second, time.Millisecond)
	return head, child
}

func TestTheOriginOfAProcess(t *testing.T) {
	f := &family{t, map[int]bool{}}
	tr := &Tracker{Procs: f.procs}
	self := os.Getpid()
	main, mains := f.tree()
	guest, guests := f.tree()
	starting, startings := f.tree()
	boxInit, orphan := f.tree()
	own, owns := f.tree()
	tr.Guest(guest, false)
	tr.Guest(own, true)
	roots := Roots{Parent: self, Init: boxInit, Main: main}
	type result struct {
		Origin
		command int
	}
	origin := func(pid int, of Roots) result { o, c := tr.Origin(pid, of); return result{o, c} }
	require.Equal(t, result{Agents, main}, origin(main, roots))
	require.Equal(t, result{Agents, main}, origin(mains, roots))
	require.Equal(t, result{Agents, boxInit}, origin(orphan, roots), "left by a command of the agent")
	require.Equal(t, result{Persons, guest}, origin(guest, roots))
	require.Equal(t, result{Persons, guest}, origin(guests, roots))
	require.Equal(t, result{Persons, starting}, origin(startings, roots), "a person's command that is not recorded yet")
	require.Equal(t, result{Outside, 0}, origin(self, roots), "this process")
	require.Equal(t, result{Outside, 0}, origin(1, roots))
	require.Equal(t, result{Outside, 0}, origin(0, roots), "a process of another pid namespace")

	require.Equal(t, result{Agents, own}, origin(owns, roots), "a command of polisd")
	roots.Starts = true
	require.Equal(t, result{Agents, starting}, origin(startings, roots), "it can be a command of polisd, which starts")
	require.Equal(t, result{Persons, guest}, origin(guests, roots))
	roots.Starts = false

	roots.Main = -1
	require.Equal(t, result{Agents, starting}, origin(startings, roots), "it can be the agent's command, which starts")
	require.Equal(t, result{Persons, guest}, origin(guests, roots))
	roots.Main, roots.Adopts = 0, true
	require.Equal(t, result{Agents, starting}, origin(startings, roots), "it can be a process whose parent has ended")
	require.Equal(t, result{Persons, guest}, origin(guests, roots))

	cmd := exec.Command("/bin/true")
	require.NoError(t, cmd.Run())
	require.Equal(t, result{Unknown, 0}, origin(cmd.Process.Pid, roots), "it has ended")
}

// TestASessionOfAPersonOutlivesItsCommand: what a shell left in the background is still of the person's session.
func TestASessionOfAPersonOutlivesItsCommand(t *testing.T) {
	f := &family{t, map[int]bool{}}
	tr := &Tracker{Procs: f.procs}
	guest, child := f.tree()
	tr.Guest(guest, false)
	require.NoError(t, syscall.Kill(guest, syscall.SIGKILL))
	require.Eventually(t, func() bool { p, ok := readProcess("/proc", child); return ok && p.parent != guest }, 30*time.Second, time.Millisecond)
	o, command := tr.Origin(child, Roots{Parent: os.Getpid()})
	require.Equal(t, Persons, o)
	require.Equal(t, guest, command)
}
