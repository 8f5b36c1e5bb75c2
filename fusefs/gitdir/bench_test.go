package gitdir

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkCheckObject is what publishing a loose object adds, beside what its
// hash alone takes, to which git's own deflating and writing come.
func BenchmarkCheckObject(b *testing.B) {
	for _, size := range []int{200, 64 << 10, 1 << 20} {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte('a' + rand.IntN(16))
		}
		raw := append([]byte(fmt.Sprintf("blob %d\x00", size)), body...)
		sum := sha1.Sum(raw)
		name := hex.EncodeToString(sum[:])
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		_, err := w.Write(raw)
		require.NoError(b, err)
		require.NoError(b, w.Close())
		fd, err := unix.MemfdCreate("object", unix.MFD_CLOEXEC)
		require.NoError(b, err)
		defer unix.Close(fd)
		_, err = unix.Write(fd, z.Bytes())
		require.NoError(b, err)
		b.Run(fmt.Sprintf("check-%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, checkObject(b.Context(), at{fd}, "objects/"+name[:2]+"/"+name[2:]))
			}
		})
		b.Run(fmt.Sprintf("hash-%d", size), func(b *testing.B) {
			for b.Loop() {
				_ = sha1.Sum(raw)
			}
		})
	}
}
