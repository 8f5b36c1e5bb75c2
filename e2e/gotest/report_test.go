package main

import (
	"bytes"
	"errors"
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
			require.Equal(t, c.ok, r.summary(c.strict), out.String())
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
			code, err := run([]string{"."}, &out)
			require.NoError(t, err)
			require.Equal(t, c.code, code, out.String())
			require.Contains(t, out.String(), c.want)
		})
	}
}

// TestSidesRunEveryTestOnce: at the same time, which two tests that wait for each other show.
func TestSidesRunEveryTestOnce(t *testing.T) {
	dir := t.TempDir()
	write := func(file, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	const meet = `package m
import ("os"; "testing"; "time")
func meet(t *testing.T, me, other string) {
	if _, err := os.Stat(me); err == nil { t.Fatal("run twice") }
	if err := os.WriteFile(me, nil, 0o600); err != nil { t.Fatal(err) }
	for i := 0; i < 6000; i++ {
		if _, err := os.Stat(other); err == nil { return }
		time.Sleep(10*time.Millisecond)
	}
	t.Fatal("the other does not run")
}
func TestA(t *testing.T) { meet(t, "a", "b") }
func TestB(t *testing.T) { meet(t, "b", "a") }
func TestC(t *testing.T) { %s }
`
	write("go.mod", "module m\n")
	t.Chdir(dir)
	for body, code := range map[string]int{"": 0, `t.Error("no good")`: 1, `os.Exit(0)`: 1} {
		write("m_test.go", strings.ReplaceAll(meet, "%s", body))
		for _, f := range []string{"a", "b"} {
			_ = os.Remove(filepath.Join(dir, f)) //nolint:errcheck // of the round before
		}
		var out bytes.Buffer
		got, err := run([]string{"-sides", "2", "-count=1", "."}, &out)
		require.NoError(t, err)
		require.Equal(t, code, got, out.String())
		require.Contains(t, out.String(), "m (2 of 2)")
		if code == 0 {
			require.Contains(t, out.String(), "3 passed, 0 failed, 0 skipped")
		}
	}
	write("m_test.go", strings.ReplaceAll(meet, "%s", `t.Error("not asked for")`))
	require.NoError(t, errors.Join(os.Remove("a"), os.Remove("b")))
	var out bytes.Buffer
	got, err := run([]string{"-sides", "2", "-run", "^Test[AB]$", "-count=1", "."}, &out)
	require.NoError(t, err)
	require.Zero(t, got, out.String())
	for _, args := range [][]string{{"-sides"}, {"-sides", "2"}, {"-sides", "none", "."}, {"-sides", "0", "."}} {
		_, err := run(args, &bytes.Buffer{})
		require.Error(t, err, args)
	}
}
