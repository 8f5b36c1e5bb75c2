package policyrecord

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/history/policylearn"
)

// TestARecordThatEndsAnywhereIsConsistent: a file that a kill or a crash of the machine cut off after any of its bytes
// has a beginning of what was recorded, and no other; with what the shim hands over again it is complete, and the cut
// is reported.
func TestARecordThatEndsAnywhereIsConsistent(t *testing.T) {
	top := t.TempDir()
	b := newBook(t, filepath.Join(top, "whole"))
	list := []api.Open{{Op: "open", Path: "read"}, {Op: "create", Path: `"odd\xff"`, Write: true}, {Op: "open-write", Path: "new\nline", Write: true}}
	require.NoError(t, b.Add("a", head(1), list, 0))
	want, err := b.Read("a", Select{Up: true})
	require.NoError(t, err)
	require.NoError(t, b.Close())
	text, err := os.ReadFile(filepath.Join(top, "whole", "a", fileName(1)))
	require.NoError(t, err)
	for n := range len(text) {
		b := newBook(t, filepath.Join(top, fmt.Sprint(n)))
		require.NoError(t, os.MkdirAll(b.Dir("a"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(b.Dir("a"), fileName(1)), text[:n], 0o600))
		if r, err := b.Read("a", Select{Up: true}); n > strings.Index(string(text), "\n") {
			require.NoError(t, err, n)
			require.Subset(t, want.Used, r.Used, n)
		}
		require.NoError(t, b.Add("a", head(1), list, 0), n)
		r, err := b.Read("a", Select{Created: head(1).Created, Run: -1, Up: true})
		require.NoError(t, err, n)
		require.Equal(t, want.Used, r.Used, n)
		require.Empty(t, r.Incomplete, n)
		torn := int64(n - strings.LastIndex(string(text[:n]), "\n") - 1)
		if n > strings.Index(string(text), "\n") {
			require.Equal(t, torn, r.Runs[0].Cut, n)
		}
		require.NoError(t, b.End("a", true), n)
		require.NoError(t, b.Close(), n)
	}
}

// TestACutThatIsInterruptedIsCutAgain: the entry about it is written over the incomplete one.
func TestACutThatIsInterruptedIsCutAgain(t *testing.T) {
	b := newBook(t, t.TempDir())
	require.NoError(t, b.Add("a", head(1), []api.Open{{Op: "open", Path: "x"}}, 0))
	require.NoError(t, b.Close())
	name := filepath.Join(b.Dir("a"), fileName(1))
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	long := `{"p":"` + strings.Repeat("t", 100)
	note := fmt.Sprintf("{\"cut\":%d}\n", len(long))
	require.NoError(t, os.WriteFile(name, []byte(string(text)+note+long[len(note):]), 0o600))
	require.NoError(t, b.Add("a", head(1), []api.Open{{Op: "open", Path: "y"}}, 0))
	r, err := b.Read("a", Select{Up: true})
	require.NoError(t, err)
	require.Equal(t, []policylearn.Use{{Path: "x"}, {Path: "y"}}, r.Used)
	require.Equal(t, int64(len(long)+len(long)-len(note)), r.Runs[0].Cut)
	require.NoError(t, b.Close())
}
