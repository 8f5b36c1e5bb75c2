package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// noRaceSleep keeps a program built with -race from sleeping a second at its end.
const noRaceSleep = "atexit_sleep_ms=0"

// TestMain sets the time zone while there is one goroutine: times in output are the same on every machine.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	testscript.Main(m, map[string]func(){
		"polisctl": main,
	})
}

// TestStories runs the command line as its users see it. Words of the
// scripts beyond testscript's own:
//
//	exits N CMD ARG...       CMD ends with status N
//	requested TEXT           polisd got a request that has TEXT in it
//	! requested TEXT         it got none
//	daemon stop              polisd is no more
//	daemon busy              its agents have work that is nowhere else
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			tb, ok := env.T().(testing.TB)
			if !ok {
				return errors.New("testscript hides testing.TB")
			}
			f := newFake(tb)
			env.Values["fake"] = f
			env.Setenv("POLIS_SOCKET", f.socket)
			env.Setenv("FAKE", f.dir)
			env.Setenv("TERM", "xterm")
			env.Setenv("GORACE", noRaceSleep)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     cmdExits,
			"requested": cmdRequested,
			"daemon": func(ts *testscript.TestScript, _ bool, args []string) {
				f := ts.Value("fake").(*fake)
				if args[0] == "busy" {
					f.mu.Lock()
					defer f.mu.Unlock()
					f.busy = true
					return
				}
				f.end()
			},
			"interrupt": cmdInterrupt,
		},
	})
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N CMD ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s ended with status %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

func cmdRequested(ts *testscript.TestScript, neg bool, args []string) {
	log := strings.Join(ts.Value("fake").(*fake).log(), "\n")
	if strings.Contains(log, strings.Join(args, " ")) == neg {
		ts.Fatalf("requests were:\n%s", log)
	}
}

// cmdInterrupt sends a signal to the background command once FILE exists:
// interrupt INT FILE.
func cmdInterrupt(ts *testscript.TestScript, _ bool, args []string) {
	sig := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}[args[0]]
	file := ts.MkAbs(args[1])
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			break
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s did not appear", filepath.Base(file))
		}
	}
	for _, c := range ts.BackgroundCmds() {
		ts.Check(c.Process.Signal(sig))
	}
}
