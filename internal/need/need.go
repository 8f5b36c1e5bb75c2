package need

import (
	"os"
	"os/exec"
	"testing"
)

// Root continues only if the test runs as root.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		lack(t, "needs root")
	}
}

// Device continues only if the machine has the device at path.
func Device(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		lack(t, "needs "+path)
	}
}

// Program continues only if PATH has the program.
func Program(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		lack(t, "needs "+name)
	}
}

// lack ends the test. The environment of CI has CI=true.
func lack(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("this test " + what + ", and CI must not skip it")
	}
	t.Skip(what)
}
