package fusefs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Names of a few files are moved, exchanged, linked, removed and made again by
// many at once, and their directories too. A reader of a file reads all of
// one, whatever has become of its name meanwhile, and nothing is refused.
func TestNamesThatMoveUnderManyHands(t *testing.T) {
	g := newCacheable()
	v := mountWith(t, g)
	for _, d := range []string{"a", "b"} {
		require.NoError(t, os.Mkdir(v.raw(d), 0o755))
	}
	body := func(i int) string { return strings.Repeat(fmt.Sprintf("%07d\n", i), 512) }
	for i := range 6 {
		write(t, v.raw(fmt.Sprintf("a/%d", i)), body(i))
	}
	const hands, rounds = 6, 400
	wrong := make(chan string, hands)
	var wg sync.WaitGroup
	for h := range hands {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(h), 7))
			name := func() string { return v.in(fmt.Sprintf("%c/%d", "ab"[r.IntN(2)], r.IntN(6))) }
			for i := range rounds {
				switch r.IntN(8) {
				case 0:
					_ = os.Rename(name(), name())
				case 1:
					_ = unix.Renameat2(unix.AT_FDCWD, name(), unix.AT_FDCWD, name(), unix.RENAME_EXCHANGE)
				case 2:
					_ = os.Link(name(), name())
				case 3:
					_ = os.Remove(name())
				case 4:
					_ = os.WriteFile(v.in(fmt.Sprintf("n%d", h)), []byte(body(h*rounds+i)), 0o644)
					_ = os.Rename(v.in(fmt.Sprintf("n%d", h)), name())
				case 5:
					_ = unix.Renameat2(unix.AT_FDCWD, v.in("a"), unix.AT_FDCWD, v.in("b"), unix.RENAME_EXCHANGE)
				default:
					if bad := readWhole(name(), len(body(0))); bad != "" {
						wrong <- bad
						return
					}
				}
			}
		})
	}
	wg.Wait()
	close(wrong)
	for bad := range wrong {
		t.Error(bad)
	}
	for _, d := range []string{"a", "b"} { // what is left is what the disk says
		seen, err := os.ReadDir(v.in(d))
		require.NoError(t, err)
		there, err := os.ReadDir(v.raw(d))
		require.NoError(t, err)
		require.Len(t, seen, len(there))
		for _, e := range there {
			require.Equal(t, content(t, v.raw(d+"/"+e.Name())), content(t, v.in(d+"/"+e.Name())))
		}
	}
}

// readWhole reads a file in two parts, the second when its name may have gone.
func readWhole(path string, size int) string {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		if err != unix.ENOENT && err != unix.ESTALE {
			return fmt.Sprintf("open %s: %v", path, err)
		}
		return ""
	}
	defer unix.Close(fd)
	buf := make([]byte, size+1)
	n, err := unix.Pread(fd, buf[:100], 0)
	if err != nil {
		return fmt.Sprintf("read %s: %v", path, err)
	}
	m, err := unix.Pread(fd, buf[n:], int64(n))
	if err != nil {
		return fmt.Sprintf("read %s: %v", path, err)
	}
	first := string(buf[:8])
	if n+m != size || strings.Count(string(buf[:n+m]), first) != size/8 {
		return fmt.Sprintf("%s: %d bytes, not all %q", path, n+m, first)
	}
	return ""
}
