package conn

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ringed is a reader of a ring that is not served.
func ringed(t testing.TB) *reader {
	t.Helper()
	c := offline(t, &testFS{})
	r, err := newRingReader(c, &queue{cpu: 0, limit: 1})
	if (errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)) && os.Getenv("CI") != "true" {
		t.Skip("this kernel makes no rings")
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.free(r)
	})
	return r
}

// arrive puts a request where the kernel puts its parts.
func (r *reader) arrive(b []byte, fixed int) {
	h := r.head()
	*h = ringHeader{commit: 7, payload: uint32(len(b) - headerSize - fixed)}
	copy(h.inOut[:], b[:headerSize])
	copy(h.fixed[:], b[headerSize:headerSize+fixed])
	copy(r.body(), b[headerSize+fixed:])
}

func TestTheKernelsPartsAreOneRequest(t *testing.T) {
	r := ringed(t)
	for _, c := range []struct {
		b     []byte
		fixed int
	}{
		{wire(opLookup, 0, "name\x00"), 0}, {wire(45, 16, "a\x00b\x00"), 16}, {wire(opGetattr, 16, ""), 16}, {wire(21, 8, "user.a\x00data"), 8},
	} {
		r.arrive(c.b, c.fixed)
		require.Equal(t, c.b, r.in[:r.take()])
		require.EqualValues(t, 7, r.due)
	}
	good := wire(opOpen, 8, "")
	for name, lie := range map[string]func(*ringHeader){
		"more payload than the whole":  func(h *ringHeader) { h.payload = 9 },
		"a length above the buffer":    func(h *ringHeader) { binary.NativeEndian.PutUint32(h.inOut[:], 1<<31) },
		"a fixed part above its place": func(h *ringHeader) { binary.NativeEndian.PutUint32(h.inOut[:], uint32(headerSize+129)) },
		"no header":                    func(h *ringHeader) { binary.NativeEndian.PutUint32(h.inOut[:], 3) },
		"payload without end":          func(h *ringHeader) { h.payload = ^uint32(0) },
	} {
		r.arrive(good, 8)
		lie(r.head())
		require.Zero(t, r.take(), name)
	}
}

func TestAnAnswerGoesWhereTheKernelLooks(t *testing.T) {
	r := ringed(t)
	r.queue.waiting.Store(2)
	for _, c := range []struct {
		b     []byte
		fixed int
		want  int32
	}{{wire(opGetattr, 16, ""), 16, 0}, {wire(opLookup, 0, "none\x00"), 0, -int32(unix.ENOENT)}, {wire(99, 0, ""), 0, -int32(unix.EIO)}} {
		r.arrive(c.b, c.fixed)
		r.handle(r.take())
		h := r.head()
		require.EqualValues(t, c.want, int32(binary.NativeEndian.Uint32(h.inOut[4:])))
		require.EqualValues(t, 7, binary.NativeEndian.Uint64(h.inOut[8:]), "whose answer it is")
		require.Equal(t, c.want == 0, h.payload == uint32(sizeOf[fuse.AttrOut]()))
		require.Zero(t, r.due, "the command is prepared")
		require.False(t, r.ring.taken())
		require.False(t, r.settled(r.call.unique.Load()), "the kernel does not have it yet")
	}
}

func TestProcessorsAreCounted(t *testing.T) {
	for list, want := range map[string]int{"0": 1, "0-1": 2, "0-15": 16} {
		n, err := countProcessors(list)
		require.NoError(t, err, list)
		require.Equal(t, want, n)
	}
	for _, list := range []string{"", "1-3", "0-16", "0-1,3", "0--1", "0-", "x"} {
		_, err := countProcessors(list)
		require.Error(t, err, list)
	}
}

func FuzzTake(f *testing.F) {
	f.Add(wire(opLookup, 0, "name\x00"), uint32(5), []byte{})
	f.Add(wire(16, 40, ""), uint32(1<<20), []byte("data"))
	r := ringed(f)
	f.Fuzz(func(t *testing.T, header []byte, payload uint32, body []byte) {
		h := r.head()
		*h = ringHeader{payload: payload}
		copy(h.inOut[:], header)
		copy(r.body(), body)
		n := r.take()
		var q query
		if st := decode(r.in[:n], &q); st == fuse.OK {
			require.Equal(t, n, int(q.header.Length))
		}
	})
}
