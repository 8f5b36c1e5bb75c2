package ending

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Bound is how long a program may take to end after it has left what it was asked for.
const Bound = 5 * time.Second

// Within waits for done. After Bound it ends the process by the signal. before is called then; it must not block.
func Within(done <-chan struct{}, sig syscall.Signal, before func()) {
	select {
	case <-done:
		return
	case <-time.After(Bound):
	}
	before()
	signal.Reset(sig)
	_ = unix.Kill(os.Getpid(), sig) // ourselves: it cannot fail
	select {
	case <-done:
	case <-time.After(time.Second): // the signal is ignored, as with nohup(1)
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
}
