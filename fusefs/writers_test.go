package fusefs

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// A guard that must know that nobody can change an object any more finds open
// files and mappings, also such as have outlived their ticket.
func TestWritersAreFoundWhenAnObjectIsPublished(t *testing.T) {
	for name, opt := range map[string]func(*Config){"hybrid": func(*Config) {}, "server only": func(c *Config) { c.NoPassthrough = true }} {
		t.Run(name, func(t *testing.T) {
			v := mountView(t, opt)
			v.g.set(func() {
				v.g.publish = func(_, _ string, fd int) syscall.Errno {
					err := NoWriters(context.Background(), fd)
					if errors.Is(err, ErrWriters) {
						return syscall.EBUSY
					}
					return backing.Errno(err)
				}
			})
			f, err := os.Create(v.in("f"))
			require.NoError(t, err)
			_, err = f.WriteString("content")
			require.NoError(t, err)
			require.ErrorIs(t, os.Link(v.in("f"), v.in("g")), syscall.EBUSY, "open for writing")
			require.NoError(t, f.Close())
			require.NoError(t, os.Link(v.in("f"), v.in("g")), "closed just now")

			f, err = os.OpenFile(v.in("f"), os.O_RDWR, 0)
			require.NoError(t, err)
			m, err := unix.Mmap(int(f.Fd()), 0, 7, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			if name == "hybrid" && v.fs.Passthrough() {
				require.Eventually(t, func() bool { return v.g.tickets() == 0 }, 30*time.Second, time.Millisecond,
					"if this fails, tickets have come to cover mappings too")
			}
			// Above an overlay the mapping holds the file of the upper layer, which the caller has to ask about.
			if !v.fs.overlay || !v.fs.Passthrough() || name != "hybrid" {
				require.ErrorIs(t, os.Rename(v.in("f"), v.in("h")), syscall.EBUSY, "mapped for writing")
			}
			store(t, m, 0, 'C')
			require.NoError(t, unix.Munmap(m))
			require.NoError(t, os.Rename(v.in("f"), v.in("h")))

			f, err = os.Open(v.in("h"))
			require.NoError(t, err)
			defer f.Close()
			require.NoError(t, os.Rename(v.in("h"), v.in("i")), "readers do not matter")
		})
	}
}
