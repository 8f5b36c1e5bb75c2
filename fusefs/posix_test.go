package fusefs

import (
	"os"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
	"github.com/stretchr/testify/require"
)

// The whole conformance suite of go-fuse, in every way data can flow.
func TestPosix(t *testing.T) {
	modes := map[string]func(*Config){
		"hybrid":         func(*Config) {},
		"server-only":    func(c *Config) { c.NoPassthrough = true },
		"nothing-cached": func(c *Config) { c.Timeout = -1 },
	}
	for mode, opt := range modes {
		t.Run(mode, func(t *testing.T) {
			for name, f := range posixtest.All {
				t.Run(name, func(t *testing.T) {
					v := mountView(t, opt)
					f(t, v.mnt)
				})
			}
		})
	}
}

func TestAViewShowsAndChangesTheBackingDirectory(t *testing.T) {
	v := mountView(t)
	write(t, v.raw("a"), "one")
	require.Equal(t, "one", content(t, v.in("a")))
	write(t, v.in("b"), "two")
	require.Equal(t, "two", content(t, v.raw("b")))
	require.NoError(t, os.Mkdir(v.in("d"), 0o750))
	require.NoError(t, os.Rename(v.in("b"), v.in("d/c")))
	require.Equal(t, "two", content(t, v.raw("d/c")))
	require.NoError(t, os.RemoveAll(v.in("d")))
	require.NoDirExists(t, v.raw("d"))
}
