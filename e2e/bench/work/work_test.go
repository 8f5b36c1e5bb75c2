package work

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain is also the main function of the readers that readFiles starts.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "reader" {
		if err := Read(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// ask sends requests to a worker and returns the replies.
func ask(t *testing.T, requests ...Request) []Reply {
	t.Helper()
	in, toWorker := io.Pipe()
	fromWorker, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(in, out) }()
	enc, dec := json.NewEncoder(toWorker), json.NewDecoder(fromWorker)
	var replies []Reply
	for _, r := range requests {
		var reply Reply
		require.NoError(t, enc.Encode(r))
		require.NoError(t, dec.Decode(&reply))
		replies = append(replies, reply)
	}
	require.NoError(t, toWorker.Close())
	require.NoError(t, <-ended)
	return replies
}

func tree(t *testing.T) string {
	dir := t.TempDir()
	for _, d := range []string{"a", "b/c", ".git/objects"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
		for i := range 10 {
			require.NoError(t, os.WriteFile(filepath.Join(dir, d, fmt.Sprint("f", i)), []byte("text\n"), 0o644))
		}
	}
	require.NoError(t, os.Symlink("f0", filepath.Join(dir, "a", "link")))
	return dir
}

func TestEveryOperationWorksAndIsTimed(t *testing.T) {
	dir := tree(t)
	const size = 3 << 20
	for _, c := range []struct {
		r   Request
		ops int
	}{
		{Request{Op: "stat"}, 20},
		{Request{Op: "open", N: 5, Passes: 3}, 15},
		{Request{Op: "open", N: 5, Passes: 3, Write: true}, 15},
		{Request{Op: "readall", Procs: 1}, 20},
		{Request{Op: "readall", Procs: 3}, 20},
		{Request{Op: "append", N: 4, Text: "more\n"}, 4},
		{Request{Op: "append", N: 4, Skip: 1, Text: "more\n"}, 4},
		{Request{Op: "tracked", N: 2, Skip: 3}, 2},
		{Request{Op: "create", Name: "out", N: 7}, 7},
		{Request{Op: "unlink", Name: "out", N: 7}, 7},
		{Request{Op: "seqwrite", Name: "big", Size: size}, 3},
		{Request{Op: "seqread", Name: "big", Size: size}, 3},
		{Request{Op: "random", Name: "big", Size: size, N: 50}, 50},
		{Request{Op: "random", Name: "big", Size: size, N: 50, Write: true}, 50},
		{Request{Op: "mmap", Name: "big", Size: size}, 3},
		{Request{Op: "mkdir", Name: "d/e"}, 1},
		{Request{Op: "remove", Name: "d"}, 1},
		{Request{Op: "remove", Name: "d"}, 1},
		{Request{Op: "run", Argv: []string{"sh", "-c", "echo x > here"}, Name: "a"}, 1},
		{Request{Op: "run", Argv: []string{"sh", "-c", "exit 1"}, OK: []int{1}}, 1},
	} {
		c.r.Dir = dir
		reply := ask(t, c.r)[0]
		require.Empty(t, reply.Err, "%+v", c.r)
		require.Equal(t, c.ops, reply.Ops, "%+v", c.r)
		require.Positive(t, reply.Wall, "%+v", c.r)
		require.GreaterOrEqual(t, reply.CPU.Nanoseconds(), int64(0), "%+v", c.r)
	}
	b, err := os.ReadFile(filepath.Join(dir, "big"))
	require.NoError(t, err)
	require.Len(t, b, size)
	require.Equal(t, fill(), b[:block], "what was mapped was written")
	require.FileExists(t, filepath.Join(dir, "a", "here"))
	require.NoDirExists(t, filepath.Join(dir, "d"))
}

func TestAppendChangesFiles(t *testing.T) {
	dir := tree(t)
	replies := ask(t, Request{Op: "append", Dir: dir, N: 20, Text: "more\n"})
	require.Empty(t, replies[0].Err)
	for f, want := range map[string]string{"a/f0": "text\nmore\n", "b/c/f9": "text\nmore\n", ".git/objects/f0": "text\n"} {
		b, err := os.ReadFile(filepath.Join(dir, f))
		require.NoError(t, err)
		require.Equal(t, want, string(b), f)
	}
}

func TestFailuresAreReportedAndTheWorkerContinues(t *testing.T) {
	dir := tree(t)
	for _, c := range []struct {
		name, want string
		r          Request
	}{
		{"unknown operation", `no operation "x"`, Request{Op: "x"}},
		{"program that fails", "oh no", Request{Op: "run", Argv: []string{"sh", "-c", "echo oh no >&2; exit 3"}, OK: []int{1}}},
		{"program that is not there", "no-such-program", Request{Op: "run", Argv: []string{"no-such-program"}}},
		{"file that is not there", "open", Request{Op: "seqread", Name: "none", Size: 1}},
		{"file that is too short", "read 5 bytes of 1048576", Request{Op: "seqread", Name: "a/f0", Size: block}},
		{"random read past the end", "page at", Request{Op: "random", Name: "a/f0", Size: block, N: 1}},
		{"nothing to remove", "no name", Request{Op: "remove"}},
		{"create twice", "file exists", Request{Op: "create", Name: "a", N: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.r.Dir = dir
			replies := ask(t, c.r, Request{Op: "stat", Dir: dir})
			require.Contains(t, replies[0].Err, c.want)
			require.Empty(t, replies[1].Err)
		})
	}
}

func TestWhereIsTheWorkingDirectory(t *testing.T) {
	wd, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, wd, ask(t, Request{Op: "where"})[0].Text)
}

func TestServeRefusesMalformedRequests(t *testing.T) {
	require.ErrorContains(t, Serve(strings.NewReader("nonsense"), io.Discard), "read a request")
}

// The CPU time of programs that a worker starts is counted. The CPU time of readers before they
// begin is not.
func TestCPUTimeOfProgramsCounts(t *testing.T) {
	reply := ask(t, Request{Op: "run", Dir: t.TempDir(), Argv: []string{"sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"}})[0]
	require.Empty(t, reply.Err)
	require.Positive(t, reply.CPU)
}
