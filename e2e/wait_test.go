package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// patience bounds every wait in these tests. It is no assertion about speed: TestMain has it grow on a machine that is
// slow now.
var patience = 90 * time.Second

// usualStart is what the start of a small program takes on a machine that is no reason to wait longer.
const usualStart = 4 * time.Millisecond

// slowness compares the start of a small program with usualStart: from 1, to 4 on a machine with far more to do than
// processors.
func slowness() (float64, error) {
	const times = 20
	began := time.Now()
	for range times {
		if err := exec.Command("true").Run(); err != nil {
			return 0, err
		}
	}
	return min(max(float64(time.Since(began))/float64(times*usualStart), 1), 4), nil
}

// lastCall is the last command of polisctl that ended, and what it printed.
type lastCall struct {
	mu   sync.Mutex
	text string
}

func (l *lastCall) note(args []string, r result) result {
	const most = 3000
	if l == nil {
		return r
	}
	text := fmt.Sprintf("polisctl %s: %s", strings.Join(args, " "), r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = text[:min(len(text), most)]
	return r
}

func (l *lastCall) String() string {
	if l == nil {
		return "not recorded"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

// eventually waits until f returns true. If that does not happen, the test fails with what polisctl printed last.
func (d *daemon) eventually(what string, f func() bool) {
	d.t.Helper()
	for began := time.Now(); !f(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > patience {
			d.t.Fatalf("waited %s for: %s\nthe last call was %s", patience.Round(time.Second), what, d.printed)
		}
	}
}
