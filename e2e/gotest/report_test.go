package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	const (
		pass   = `{"Action":"output","Package":"p","Test":"A","Output":"chatter\n"}` + "\n" + `{"Action":"pass","Package":"p","Test":"A"}` + "\n"
		fail   = `{"Action":"output","Package":"p","Test":"B","Output":"reason of B\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"B"}` + "\n"
		skip   = `{"Action":"output","Package":"p","Test":"C","Output":"    x_test.go:1: needs root\n"}` + "\n" + `{"Action":"output","Package":"p","Test":"C","Output":"--- SKIP: C (0.00s)\n"}` + "\n" + `{"Action":"skip","Package":"p","Test":"C"}` + "\n"
		noEnd  = `{"Action":"output","Package":"p","Test":"D","Output":"last words\n"}` + "\n"
		broken = `{"ImportPath":"p","Action":"build-output","Output":"p.go:1: syntax error\n"}` + "\n" + `{"ImportPath":"p","Action":"build-fail"}` + "\n"
		ended  = `{"Action":"pass","Package":"p"}` + "\n"
	)
	for name, c := range map[string]struct {
		in     string
		strict bool
		ok     bool
		want   []string
		not    string
	}{
		"what passes prints nothing":          {in: pass + ended, strict: true, ok: true, want: []string{"pass p", "1 passed, 0 failed, 0 skipped"}, not: "chatter"},
		"a failure says why":                  {in: pass + fail + ended, want: []string{"reason of B", "FAILED: p B", "1 passed, 1 failed"}},
		"a skip outside of CI is only listed": {in: skip + ended, ok: true, want: []string{"skipped: p C: x_test.go:1: needs root"}},
		"a skip in CI fails":                  {in: skip + ended, strict: true, want: []string{"in CI no test may be skipped"}},
		"a test that never ended fails":       {in: noEnd, want: []string{"last words", "FAILED: p D (did not end)"}},
		"a package that does not build fails": {in: broken, want: []string{"syntax error", "FAILED: p (does not build)"}},
		"what is no event is printed":         {in: "go: downloading x\n" + ended, ok: true, want: []string{"go: downloading x"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			r := newReport(&out)
			require.NoError(t, r.read(strings.NewReader(c.in), "", &sync.Mutex{}))
			require.Equal(t, c.ok, r.summary(c.strict, ""), out.String())
			for _, w := range c.want {
				require.Contains(t, out.String(), w)
			}
			if c.not != "" {
				require.NotContains(t, out.String(), c.not)
			}
		})
	}
}

// TestRunsGoTest lets the go command test packages made here.
func TestRunsGoTest(t *testing.T) {
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	for name, c := range map[string]struct {
		body string
		ci   string
		code int
		want string
	}{
		"passes":  {"", "true", 0, "1 passed, 0 failed, 0 skipped"},
		"fails":   {`t.Error("no good")`, "", 1, "no good"},
		"skips":   {`t.Skip("not here")`, "true", 1, "not here"},
		"panics":  {`panic("oh")`, "", 1, "panic: oh"},
		"exits":   {`os.Exit(0)`, "", 1, "FAILED"},
		"garbles": {`;;}`, "", 1, "FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(file, text string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			write("go.mod", "module m\n")
			write("m_test.go", "package m\nimport (\"os\"; \"testing\")\nvar _ = os.Exit\nfunc TestM(t *testing.T) {\n"+c.body+"\n}\n")
			t.Setenv("CI", c.ci)
			t.Chdir(dir)
			var out bytes.Buffer
			code, err := run([]string{"."}, &out, "")
			require.NoError(t, err)
			require.Equal(t, c.code, code, out.String())
			require.Contains(t, out.String(), c.want)
		})
	}
}

// sidesModule makes a module and enters it. Its tests A and B wait for each other, and C does what
// the file "how" says.
func sidesModule(t *testing.T) (write func(file, text string)) {
	dir := t.TempDir()
	write = func(file, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	write("go.mod", "module m\n")
	write("m_test.go", `package m
import ("os"; "testing"; "time")
func await(t *testing.T, other string) {
	for i := 0; i < 6000; i++ {
		if _, err := os.Stat(other); err == nil { return }
		time.Sleep(10*time.Millisecond)
	}
	t.Fatal("the other does not run")
}
func begin(t *testing.T, me string) {
	f, err := os.OpenFile(me, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil { t.Fatal("run twice", err) }
	f.Close()
}
func TestA(t *testing.T) { begin(t, "a"); await(t, "b") }
func TestB(t *testing.T) { begin(t, "b"); await(t, "a") }
func TestC(t *testing.T) {
	begin(t, "c")
	how, _ := os.ReadFile("how")
	switch string(how) {
	case "fail": t.Error("no good")
	case "skip": t.Skip("not here")
	case "exit": os.Exit(0)
	case "exit 3": os.Exit(3)
	case "panic": panic("oh")
	case "panic in a part": t.Run("part", func(*testing.T) { panic("oh") })
	case "hang": time.Sleep(time.Hour)
	case "fail at the end": t.Cleanup(func() { t.Error("left behind") })
	case "last":
		for _, f := range []string{"a", "b"} {
			if _, err := os.Stat(f); err != nil { t.Fatal("before the others") }
		}
	}
}
`)
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	return write
}

// TestSidesRunEveryTestOnce: at the same time, which two tests that wait for each other show.
func TestSidesRunEveryTestOnce(t *testing.T) {
	write := sidesModule(t)
	built, err := parseSides([]string{"-sides", "2", "."})
	require.NoError(t, err)
	p, err := built.buildIn(t.TempDir())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		how, args string
		ok        bool
		want      []string
	}{
		"all pass":              {args: "-count=1 -timeout 2m", ok: true, want: []string{"(2 of 2)", "3 passed, 0 failed, 0 skipped"}},
		"one fails":             {how: "fail", want: []string{"no good", "FAILED: m TestC", "2 passed, 1 failed"}},
		"one is skipped":        {how: "skip", ok: true, want: []string{"m TestC", "not here", "2 passed, 0 failed, 1 skipped"}},
		"one ends the process":  {how: "exit", want: []string{"FAILED: m TestC", "2 passed, 1 failed"}},
		"one fails the process": {how: "exit 3", want: []string{"FAILED: m TestC", "2 passed, 1 failed"}},
		"one panics":            {how: "panic", want: []string{"panic: oh", "FAILED: m TestC", "2 passed, 1 failed"}},
		"a part of one panics":  {how: "panic in a part", want: []string{"panic: oh", "FAILED: m TestC/part"}},
		"one does not end":      {how: "hang", args: "-timeout=2s", want: []string{"panic: test timed out after 2s", "FAILED: m TestC"}},
		"one fails as it ends":  {how: "fail at the end", want: []string{"left behind", "FAILED: m TestC"}},
		"those asked for":       {how: "fail", args: "-run ^Test[AB]$", ok: true, want: []string{"2 passed, 0 failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range []string{"a", "b", "c"} {
				_ = os.Remove(f) //nolint:errcheck // of the round before
			}
			write("how", c.how)
			s, err := parseSides(append(append([]string{"-sides", "2"}, strings.Fields(c.args)...), "."))
			require.NoError(t, err)
			var out bytes.Buffer
			r := newReport(&out)
			require.NoError(t, s.runTests(t.Context(), r, p))
			require.Equal(t, c.ok, r.summary(false, ""), out.String())
			for _, w := range c.want {
				require.Contains(t, out.String(), w)
			}
		})
	}
	_, err = p.tests("^TestX$")
	require.Error(t, err)
	for _, args := range [][]string{{"-sides"}, {"-sides", "2"}, {"-sides", "none", "."}, {"-sides", "0", "."}, {"-sides", "2", "-fuzz", "x", "."}, {"-sides", "2", "-run", "."}, {"-sides", "2", "-timeout", "0", "."}} {
		_, err := parseSides(args)
		require.Error(t, err, args)
	}
}

// TestOrderOfTests: a test that runs alone begins when the others have ended.
func TestOrderOfTests(t *testing.T) {
	write := sidesModule(t)
	write("how", "last")
	write("testdata/order.txt", "# why\nfirst TestB\nalone TestC\n")
	t.Setenv("CI", "true")
	var out bytes.Buffer
	code, err := run([]string{"-sides", "3", "-count=1", "."}, &out, "")
	require.NoError(t, err)
	require.Zero(t, code, out.String())
	require.Contains(t, out.String(), "(1 of 1)")
	for args, code := range map[string]int{"-run ^TestX$ .": 1, "./missing": 1, "-fuzz x .": 2} {
		got, err := run(append([]string{"-sides", "2"}, strings.Fields(args)...), &bytes.Buffer{}, "")
		require.Error(t, err, args)
		require.Equal(t, code, got, args)
	}

	together, last := order{first: []string{"D", "B"}, alone: []string{"A"}}.apply([]string{"A", "B", "C", "D"})
	require.Equal(t, []string{"D", "B", "C"}, together)
	require.Equal(t, []string{"A"}, last)
	for _, text := range []string{"alone TestGone", "last TestC", "TestC", "first", "first TestC\nfirst TestC", "first TestC\nalone TestC"} {
		write("testdata/order.txt", text+"\n")
		_, err := readOrder("testdata/order.txt", []string{"TestC"})
		require.Error(t, err, text)
	}
}
