package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAProgramThatOpensTooManyFilesHarmsItself: it gets EMFILE at its own limit, and keeps its open
// files. The agent's other programs can open files.
func TestAProgramThatOpensTooManyFilesHarmsItself(t *testing.T) {
	needProgram(t, "python3")
	d := startDaemon(t, options{wrap: []string{"prlimit", "--nofile=2048:2048"}})
	d.up()
	d.add("alice")
	done := make(chan result, 1)
	go func() {
		done <- d.exec("alice", "python3", "-c", `
import errno, os, time
held = []
try:
    for i in range(4000):
        held.append(os.open("f%d" % (i % 50), os.O_RDWR | os.O_CREAT, 0o644))
    print("no limit")
except OSError as e:
    print(errno.errorcode[e.errno], len(held) > 900, flush=True)
os.close(held.pop()) # one for itself
open("/tmp/full", "w").close()
while not os.path.exists("/tmp/go"):
    time.sleep(0.01)
`)
	}()
	d.eventually("the program to be at its limit", func() bool { return d.exec("alice", "test", "-e", "/tmp/full").code == 0 })
	// Other programs can open the rest of the view's limit, and more than one program usually
	// needs.
	d.sh("alice", `python3 -c '
import os
held = [os.open("g%d" % (i % 50), os.O_RDWR | os.O_CREAT, 0o644) for i in range(300)]
print(len(held))'`)
	d.sh("alice", "echo x > other.txt && cat other.txt main.txt && touch /tmp/go")
	select {
	case r := <-done:
		require.Equal(t, "EMFILE True\n", r.stdout, r)
	case <-time.After(patience):
		t.Fatal("the program does not end")
	}
}
