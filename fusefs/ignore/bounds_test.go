package ignore

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// rules are n patterns, of which the first ignores the file "yes".
func rules(n int, salt string) string {
	var b strings.Builder
	b.WriteString("yes\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "*.%s%d/**/x\n", salt, i)
	}
	return b.String()
}

// settle makes a file's times old enough to be trusted.
func settle(t *testing.T, path string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var st unix.Stat_t
		require.NoError(t, unix.Stat(path, &st))
		return !recent(&st)
	}, 30*time.Second, 5*time.Millisecond)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestPatternsTakeBoundedMemory: an agent can give every directory a large
// .gitignore, by links to one file or by one of its own each.
func TestPatternsTakeBoundedMemory(t *testing.T) {
	for name, linked := range map[string]bool{"one file with many names": true, "many files": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			const dirs, lines = 40, 9000
			for i := range dirs {
				d := fmt.Sprint("d", i)
				if i == 0 || !linked {
					write(t, dir, d+"/.gitignore", rules(lines, d))
					continue
				}
				require.NoError(t, os.Mkdir(filepath.Join(dir, d), 0o755))
				require.NoError(t, os.Link(filepath.Join(dir, "d0/.gitignore"), filepath.Join(dir, d, ".gitignore")))
			}
			settle(t, filepath.Join(dir, fmt.Sprint("d", dirs-1), ".gitignore"))
			m, done := matcher(t, dir, Config{})
			defer done()
			before := heap()
			for range 2 {
				for i := range dirs {
					require.True(t, m.Ignored(fmt.Sprintf("d%d/yes", i), false))
					require.False(t, m.Ignored(fmt.Sprintf("d%d/no", i), false))
				}
			}
			taken := heap() - before
			t.Log("heap", taken, "counted", m.heavy)
			require.Less(t, taken, int64(3*maxWeight))
			require.LessOrEqual(t, m.heavy, int64(maxWeight))
			if linked {
				require.Len(t, m.files, 1)
			} else {
				require.Less(t, len(m.dirs), dirs, "not all of them can be remembered")
			}
			// What changes is read again, also by the other names.
			require.NoError(t, os.WriteFile(filepath.Join(dir, "d0/.gitignore"), []byte("no\n"), 0o600))
			require.Eventually(t, func() bool { return m.Ignored("d0/no", false) && !m.Ignored("d0/yes", false) }, 30*time.Second, 5*time.Millisecond)
			require.Eventually(t, func() bool { return linked == !m.Ignored("d5/yes", false) }, 30*time.Second, 5*time.Millisecond)
			runtime.KeepAlive(m)
		})
	}
}

// TestTooLargeAFileIgnoresNothing, and it is not read at every query.
func TestTooLargeAFileIgnoresNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, ".gitignore", "yes\n"+strings.Repeat("#", maxIgnoreFile))
	settle(t, filepath.Join(dir, ".gitignore"))
	var told []string
	m, done := matcher(t, dir, Config{Recheck: -1, OnTooLarge: func(path string, err error) {
		require.ErrorIs(t, err, ErrTooLarge)
		told = append(told, path+": "+err.Error())
	}})
	defer done()
	require.False(t, m.Ignored("yes", false))
	first := m.dirs[""]
	require.True(t, first.bad)
	require.False(t, m.Ignored("yes", false))
	require.Same(t, first, m.dirs[""])
	require.Equal(t, []string{".gitignore: it is too large to be read: it has 262148 bytes, at most 262144"}, told)
	require.NoError(t, os.Truncate(filepath.Join(dir, ".gitignore"), 4))
	require.True(t, m.Ignored("yes", false))
	require.Len(t, told, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".gitignore"), bytes.Repeat([]byte("a\n"), maxLines+1), 0o644))
	for range 3 { // its times are those of a file that may change again
		require.False(t, m.Ignored("yes", false))
	}
	require.Len(t, told, 2)
	require.Contains(t, told[1], "more than 10000 patterns")
}

// TestNamesOfAnIndexAreBounded: version 4 keeps of a name only what differs from
// the one before, so a small index can have very long names.
func TestNamesOfAnIndexAreBounded(t *testing.T) {
	b := bomb(maxNames/4000 + 2)
	require.Less(t, len(b), 4<<20)
	_, err := parseIndex(b, 20)
	require.ErrorIs(t, err, ErrIndex)
	require.ErrorContains(t, err, "of names")
	_, err = parseIndex(bomb(10), 20)
	require.NoError(t, err)
}

// bomb is an index of n names of 4000 bytes that differ at the end.
func bomb(n int) []byte {
	b := []byte{'D', 'I', 'R', 'C', 0, 0, 0, 4, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
	for i := range n {
		entry := make([]byte, 62)
		entry[24+2], entry[24+3] = 0x81, 0xa4
		entry[60], entry[61] = 4000>>8, 4000&0xff
		b = append(b, entry...)
		end := fmt.Sprintf("%08d", i)
		if i == 0 {
			b = append(append(b, 0), strings.Repeat("a", 4000-8)+end...)
		} else {
			b = append(append(b, 8), end...)
		}
		b = append(b, 0)
	}
	return append(b, make([]byte, 20)...)
}
