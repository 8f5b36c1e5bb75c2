package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/internal/need"
)

// partsTree makes a tree with scripts/parts, a built gotest, and parts in its Makefile that test the
// module of chanceModule. The working directory is the module's.
func partsTree(t *testing.T) (parts func(until time.Duration, names ...string) (string, error)) {
	top := t.TempDir()
	text, err := os.ReadFile("../../scripts/parts")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(top, "scripts"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(top, "scripts/parts"), text, 0o700))
	out, err := exec.Command("go", "build", "-o", filepath.Join(top, "bin")+"/", ".").CombinedOutput()
	require.NoError(t, err, string(out))
	chanceModule(t)
	module, err := os.Getwd()
	require.NoError(t, err)
	makefile := fmt.Sprintf(`
gotest = cd %s && exec %s/bin/gotest
build:; exit 7
runner:; exit 7
good: build runner; $(gotest) -count=1 -run TestA .
sides: build; $(gotest) -sides 2 -count=1 -timeout 1m .
broken:; $(gotest) -count=1 ./missing
lint:; @echo this is not formatted; exit 1
many:; @echo COUNT 3000 0 0 0 >>$$POLIS_TEST_RESULTS
`, module, top)
	require.NoError(t, os.WriteFile(filepath.Join(top, "Makefile"), []byte(makefile), 0o600))
	t.Setenv("CI", "true")
	return func(until time.Duration, names ...string) (string, error) {
		cmd := exec.Command(filepath.Join(top, "scripts/parts"), names...)
		if until > 0 {
			cmd.Env = append(os.Environ(), fmt.Sprint("TEST_UNTIL=", time.Now().Add(until).Unix()))
		}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		left, globErr := filepath.Glob(filepath.Join(top, "bin/results*"))
		require.NoError(t, globErr)
		require.Empty(t, left)
		return out.String(), err
	}
}

// TestAllPartsRunToTheEnd whatever fails, and the last lines are the failures.
func TestAllPartsRunToTheEnd(t *testing.T) {
	parts := partsTree(t)

	out, err := parts(0, "good", "sides")
	require.NoError(t, err, out)
	require.Regexp(t, `=== all parts\n5 passed, 0 failed, 0 skipped, 0 flaky; 2 of 2 parts passed\n$`, out)

	failAs(t, "TestA=once TestB=once")
	out, err = parts(time.Minute, "good", "sides")
	require.NoError(t, err, "two are forgiven: %s", out)
	require.Contains(t, out, "no good: TestA")
	require.Regexp(t, `=== all parts
FLAKY m.TestA \(make good\)
FLAKY m.TestB \(make sides\)
3 passed, 0 failed, 0 skipped, 2 flaky; 2 of 2 parts passed
$`, out)

	failAs(t, "TestA=once TestB=once TestC=once TestD=always")
	out, err = parts(0, "lint", "good", "broken", "sides")
	require.Error(t, err, out)
	require.Regexp(t, `=== all parts
FLAKY m.TestA \(make good\)
FLAKY m.TestB \(make sides\)
FLAKY m.TestC \(make sides\)
FAILED: make lint: ended with status 2
FAILED: make broken: ./missing \(does not build\)
FAILED: make broken: ended with status 2
FAILED: make sides: m TestD
FAILED: make sides: ended with status 2
FAILED: 3 tests are flaky, more than 2
1 passed, 2 failed, 0 skipped, 3 flaky; 1 of 4 parts passed
$`, out)
	require.Contains(t, out, "this is not formatted")

	failAs(t, "TestA=once TestB=once TestC=once")
	out, err = parts(0, "good", "sides")
	require.Error(t, err, out)
	require.Contains(t, out, "FAILED: 3 tests are flaky, more than 2\n2 passed, 0 failed, 0 skipped, 3 flaky; 2 of 2 parts passed\n")
	failAs(t, "TestA=once TestB=once TestC=once")
	out, err = parts(0, "good", "sides", "many")
	require.NoError(t, err, "in a run of 3,000 tests one of a thousand is forgiven, whenever they come: %s", out)

	failAs(t, "TestB=hang")
	began := time.Now()
	out, err = parts(15*time.Second, "sides", "lint")
	require.Error(t, err, out)
	require.Less(t, time.Since(began), time.Minute, "the test has its own time limit of a minute")
	require.NotContains(t, out, "this is not formatted")
	// The signal can reach TestB first: gotest then begins the test after it, and gets the signal there.
	require.Regexp(t, `=== all parts
FAILED: make sides: m TestB \(did not end\)
(FAILED: make sides: m \(tests that did not begin: 1\)
)?FAILED: make sides: gotest \(stopped by a signal before its end\)
FAILED: make sides: ended with status 124: the time is up
FAILED: make lint: did not run: the time is up
(2 passed, 3|3 passed, 2) failed, 0 skipped, 0 flaky; 0 of 2 parts passed
$`, out)
}

// TestWhatIsLeftBehindIsAFailureOfTheRun: no second run of a test forgives it.
func TestWhatIsLeftBehindIsAFailureOfTheRun(t *testing.T) {
	need.Root(t)
	check, err := filepath.Abs("../../scripts/leakcheck")
	require.NoError(t, err)
	dir := t.TempDir()
	results := filepath.Join(dir, "results")
	// Mounts, links, namespaces and groups of other tests are not there.
	inside := func(command string) *exec.Cmd {
		cmd := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "sh", "-c", "mount -t tmpfs none /sys && exec "+check+" run "+command)
		cmd.Env = append(os.Environ(), "TMPDIR="+dir, "POLIS_TEST_RESULTS="+results)
		return cmd
	}
	out, err := inside("true").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoFileExists(t, results)
	out, err = inside("touch " + dir + "/polis-left").CombinedOutput()
	require.Error(t, err, string(out))
	b, err := os.ReadFile(results)
	require.NoError(t, err)
	require.Equal(t, "FAILED: left behind: temporary "+dir+"/polis-left\n", string(b))
}
