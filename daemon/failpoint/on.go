//go:build failpoint

package failpoint

import (
	"os"
	"strings"
	"syscall"
)

// Hit marks a step as reached, and ends the process if a test has chosen this step.
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
	if err != nil || strings.TrimSpace(string(want)) != step {
		return
	}
	if err := os.Remove(file); err != nil {
		panic(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}
