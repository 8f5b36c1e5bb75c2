//go:build failpoint

package failpoint

import (
	"os"
	"strings"
	"syscall"
	"time"
)

// waitMost bounds how long a step waits.
const waitMost = 2 * time.Minute

// Hit marks a step as reached. If a test has chosen this step, it ends the process or waits.
func Hit(step string) {
	file := os.Getenv("POLIS_FAILPOINT")
	if file == "" {
		return
	}
	log, err := os.OpenFile(file+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err) // a test that would test nothing
	}
	if _, err := log.WriteString(step + "\n"); err != nil {
		panic(err)
	}
	if err := log.Close(); err != nil {
		panic(err)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		return
	}
	switch strings.TrimSpace(string(want)) {
	case step:
		if err := os.Remove(file); err != nil {
			panic(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			panic(err)
		}
		select {}
	case "wait " + step:
		waiting := file + ".waiting"
		if err := os.Rename(file, waiting); err != nil {
			panic(err)
		}
		for end := time.Now().Add(waitMost); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(waiting); err != nil {
				return
			}
		}
		panic("no test has ended the wait at " + step)
	}
}
