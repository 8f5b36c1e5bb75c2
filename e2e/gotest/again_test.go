package main

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// byChance is a package whose tests fail the first time in the way that the file NAME.how names. With
// "always" they fail each time.
const byChance = `package m
import ("os"; "testing"; "time")
func do(t *testing.T) {
	how, err := os.ReadFile(t.Name() + ".how")
	if err != nil { return }
	if _, err := os.Stat(t.Name() + ".ran"); err == nil && string(how) != "always" { return }
	if err := os.WriteFile(t.Name()+".ran", nil, 0o600); err != nil { t.Fatal(err) }
	switch string(how) {
	case "once", "always": t.Error("no good: " + t.Name())
	case "part": t.Run("part", func(t *testing.T) { t.Error("no good: " + t.Name()) })
	case "panic": panic("oh")
	case "exit": os.Exit(1)
	case "hang": time.Sleep(time.Hour)
	case "skip": t.Skip("not here")
	case "race": t.Error("race detected during execution of test")
	}
}
func TestA(t *testing.T) { do(t) }
func TestB(t *testing.T) { do(t) }
func TestC(t *testing.T) { do(t) }
func TestD(t *testing.T) { do(t) }
`

// chanceModule makes the module and enters it.
func chanceModule(t *testing.T) {
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("go.mod", []byte("module m\n"), 0o600))
	require.NoError(t, os.WriteFile("m_test.go", []byte(byChance), 0o600))
	order := "alone TestD\n"
	require.NoError(t, os.Mkdir("testdata", 0o700))
	require.NoError(t, os.WriteFile("testdata/order.txt", []byte(order), 0o600))
}

// failAs lets tests fail, given as "TestA=once TestB=always", and forgets the runs before.
func failAs(t *testing.T, how string) {
	old, err := filepath.Glob("Test*.*")
	require.NoError(t, err)
	for _, f := range old {
		require.NoError(t, os.Remove(f))
	}
	for _, h := range strings.Fields(how) {
		name, how, _ := strings.Cut(h, "=")
		require.NoError(t, os.WriteFile(name+".how", []byte(how), 0o600))
	}
}

// TestAFailedTestRunsAgainAlone: it is flaky if it passes then, and what a second run cannot disprove
// stays a failure.
func TestAFailedTestRunsAgainAlone(t *testing.T) {
	chanceModule(t)
	built, err := parseSides(strings.Fields("-sides 2 -count=1 -timeout 5s ."))
	require.NoError(t, err)
	p, err := built.buildIn(t.TempDir())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		args, how, ci string
		sides, ok     bool
		want          []string
		not           string
	}{
		"all pass":                   {ok: true, ci: "true", want: []string{"4 passed, 0 failed, 0 skipped, 0 flaky"}, not: "FLAKY"},
		"one by chance":              {ok: true, ci: "true", how: "TestB=once", want: []string{"FLAKY m.TestB: it passed alone. The first time it failed with:\n=== RUN   TestB\n", "no good: TestB", "\nFLAKY m.TestB\n3 passed, 0 failed, 0 skipped, 1 flaky"}, not: "FAILED"},
		"a part of one by chance":    {ok: true, how: "TestB=part", want: []string{"no good: TestB/part", "\nFLAKY m.TestB\n3 passed, 0 failed, 0 skipped, 1 flaky"}, not: "FAILED"},
		"always":                     {how: "TestB=always", want: []string{"m.TestB failed again", "FAILED: m TestB\n3 passed, 1 failed, 0 skipped, 0 flaky"}, not: "FLAKY"},
		"one by chance, one always":  {how: "TestA=once TestB=always", want: []string{"\nFLAKY m.TestA\nFAILED: m TestB\n2 passed, 1 failed, 0 skipped, 1 flaky"}},
		"two by chance":              {ok: true, how: "TestA=once TestB=once", want: []string{"2 passed, 0 failed, 0 skipped, 2 flaky"}},
		"three by chance":            {how: "TestA=once TestB=once TestD=once", want: []string{"1 passed, 0 failed, 0 skipped, 3 flaky", "3 tests of this run are flaky, more than 2"}},
		"a panic ends the tests":     {how: "TestB=panic", want: []string{"panic: oh", "FAILED: m TestB", "m TestB is not run again"}, not: "FLAKY"},
		"an exit ends the tests":     {how: "TestB=exit", want: []string{"FAILED: m TestB", "m TestB is not run again"}, not: "FLAKY"},
		"the time limit ends them":   {how: "TestB=hang", want: []string{"panic: test timed out", "FAILED: m TestB", "m TestB is not run again"}, not: "FLAKY"},
		"by chance before a panic":   {how: "TestA=once TestB=panic", want: []string{"FAILED: m TestA", "FAILED: m TestB", "FAILED: m\n"}, not: "FLAKY"},
		"a data race":                {how: "TestB=race", want: []string{"m TestB had a data race"}, not: "FLAKY"},
		"a skip in CI":               {ci: "true", how: "TestB=skip", want: []string{"skipped: m TestB", "in CI no test may be skipped"}},
		"on sides by chance":         {ok: true, sides: true, ci: "true", how: "TestB=once", want: []string{"no good: TestB", "\nFLAKY m.TestB\n3 passed, 0 failed, 0 skipped, 1 flaky"}, not: "FAILED"},
		"on sides a panic":           {ok: true, sides: true, how: "TestB=panic", want: []string{"panic: oh", "\nFLAKY m.TestB\n"}, not: "FAILED"},
		"on sides an exit":           {ok: true, sides: true, how: "TestB=exit", want: []string{"\nFLAKY m.TestB\n"}, not: "FAILED"},
		"on sides the time limit":    {ok: true, sides: true, how: "TestB=hang", want: []string{"panic: test timed out", "\nFLAKY m.TestB\n"}, not: "FAILED"},
		"on sides always":            {sides: true, how: "TestD=always", want: []string{"FAILED: m TestD\n3 passed, 1 failed, 0 skipped, 0 flaky"}},
		"on sides three by chance":   {sides: true, how: "TestA=once TestB=once TestD=once", want: []string{"more than 2"}},
		"on sides a data race":       {sides: true, how: "TestB=race", want: []string{"m TestB had a data race"}, not: "FLAKY"},
		"on sides a skip in CI":      {sides: true, ci: "true", how: "TestB=skip", want: []string{"in CI no test may be skipped"}},
		"what is no option of tests": {args: "-fuzz x .", want: []string{"0 passed, 1 failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			failAs(t, c.how)
			t.Setenv("CI", c.ci)
			var out bytes.Buffer
			var ok bool
			if c.sides {
				r := newReport(&out)
				require.NoError(t, built.runBuilt(t.Context(), r, p))
				ok = r.summary(c.ci != "", "")
			} else {
				code, err := run(strings.Fields(cmp.Or(c.args, "-count=1 -timeout 5s .")), &out, "")
				require.Equal(t, c.args != "", err != nil)
				ok = code == 0
			}
			require.Equal(t, c.ok, ok, out.String())
			for _, w := range c.want {
				require.Contains(t, out.String(), w)
			}
			if c.not != "" {
				require.NotContains(t, out.String(), c.not)
			}
		})
	}
}

// TestOnlySomeTestsRunAgain: where many fail, there is a fault.
func TestOnlySomeTestsRunAgain(t *testing.T) {
	r := newReport(&bytes.Buffer{})
	r.sided = true
	for _, name := range strings.Fields("A B C D E F G H I J K") {
		r.failed = append(r.failed, failure{pkg: "p", test: "Test" + name}, failure{pkg: "p", test: "Test" + name + "/part"})
	}
	r.failed = append(r.failed, failure{pkg: "q", note: "does not build"})
	ran := 0
	r.runAgain(t.Context(), func(again *report, pkg, test string) error {
		ran++
		again.results[key{pkg, test}] = "pass"
		return nil
	})
	require.Equal(t, maxAgain, ran)
	require.Len(t, r.flaky, maxAgain)
	require.Len(t, r.failed, 2*(11-maxAgain)+1)
	require.False(t, r.summary(false, ""))
}

// TestFlakyTestsAreRecordedOverAllInvocations of one run, in the file that they share.
func TestFlakyTestsAreRecordedOverAllInvocations(t *testing.T) {
	chanceModule(t)
	t.Setenv("CI", "true")
	results := filepath.Join(t.TempDir(), "results")
	for i, c := range []struct {
		how  string
		code int
	}{{"TestA=once", 0}, {"TestA=once TestB=always", 1}, {"", 0}, {"TestC=once", 0}, {"", 0}, {"TestA=skip", 1}} {
		failAs(t, c.how)
		var out bytes.Buffer
		code, err := run([]string{"-count=1", "."}, &out, results)
		require.NoError(t, err)
		require.Equal(t, c.code, code, "%d %s", i, out.String())
	}
	b, err := os.ReadFile(results)
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(`
FLAKY m.TestA
COUNT 3 0 0 1
FLAKY m.TestA
FAILED: m TestB
COUNT 2 1 0 1
COUNT 4 0 0 0
FLAKY m.TestC
COUNT 3 0 0 1
COUNT 4 0 0 0
FAILED: m TestA (skipped: m_test.go:14: not here)
COUNT 3 0 1 0
`)+"\n", string(b))
	var out bytes.Buffer
	code, err := run([]string{"-count=1", "."}, &out, filepath.Join(t.TempDir(), "missing", "results"))
	require.NoError(t, err)
	require.Equal(t, 1, code, "a run that cannot be counted fails: %s", out.String())
}
