package fusefs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/fusefs/shared"
)

// A name that did not exist, and that the kernel keeps as absent, shows once a pattern
// brings it in.
func TestANameThatWasAbsentShowsWhenTheSharedNamesChange(t *testing.T) {
	p := mountProject(t, func(low string) {
		for _, name := range []string{"certs/dev.pem", "sub/certs/dev.pem", "other/file"} {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(low, name)), 0o755))
			write(t, filepath.Join(low, name), "low")
		}
	})
	require.NoError(t, os.Mkdir(p.raw("sub"), 0o755))
	for _, name := range []string{"certs", "sub/certs", "other"} {
		_, err := os.Lstat(p.in(name))
		require.ErrorIs(t, err, syscall.ENOENT)
	}
	before := p.fs.Requests()["LOOKUP"]
	_, err := os.Lstat(p.in("certs"))
	require.ErrorIs(t, err, syscall.ENOENT)
	require.Equal(t, before, p.fs.Requests()["LOOKUP"], "the kernel keeps that it is absent")

	write(t, filepath.Join(p.low, shared.IncludeFile), "certs/\n")
	require.Eventually(t, p.paths.Changed, time.Minute, 10*time.Millisecond)
	require.False(t, p.paths.Changed(), "once for each change")
	p.fs.SharedChanged()
	require.Eventually(t, func() bool {
		_, err := os.Lstat(p.in("certs"))
		return err == nil
	}, time.Minute, time.Millisecond)
	require.Equal(t, "low", content(t, p.in("certs/dev.pem")))
	require.Eventually(t, func() bool {
		_, err := os.Lstat(p.in("sub/certs/dev.pem"))
		return err == nil
	}, time.Minute, time.Millisecond)
	before = p.fs.Requests()["LOOKUP"]
	_, err = os.Lstat(p.in("other"))
	require.ErrorIs(t, err, syscall.ENOENT)
	require.Equal(t, before, p.fs.Requests()["LOOKUP"], "what cannot show stays absent without a request")
}
