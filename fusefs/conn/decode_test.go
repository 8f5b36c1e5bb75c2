package conn

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
)

// wire makes a request: header, fixed part, the rest. Its memory is aligned as
// a reader's is.
func wire(opcode uint32, fixed int, rest string) []byte {
	b := make([]byte, headerSize+fixed+len(rest))
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint32(b[4:], opcode)
	binary.NativeEndian.PutUint64(b[8:], 7)
	binary.NativeEndian.PutUint64(b[16:], fuse.FUSE_ROOT_ID)
	copy(b[headerSize+fixed:], rest)
	return b
}

func TestRequestsAreCheckedBeforeTheyAreBelieved(t *testing.T) {
	good := wire(opLookup, 0, "name\x00")
	lying := bytes.Clone(good)
	binary.NativeEndian.PutUint32(lying, uint32(len(good)+1))
	extended := bytes.Clone(good)
	binary.NativeEndian.PutUint16(extended[36:], 0xffff)
	for name, c := range map[string]struct {
		b    []byte
		want fuse.Status
	}{
		"a look-up":                        {good, fuse.OK},
		"two names":                        {wire(45, 16, "a\x00b\x00"), fuse.OK},
		"data after a name":                {wire(21, 8, "user.a\x00data"), fuse.OK},
		"nothing":                          {nil, fuse.EIO},
		"half a header":                    {good[:20], fuse.EIO},
		"a length that is not so":          {lying, fuse.EIO},
		"an extension longer than the all": {extended, fuse.EIO},
		"no end of the name":               {wire(opLookup, 0, "name"), fuse.EIO},
		"one name of two":                  {wire(45, 16, "a\x00b"), fuse.EIO},
		"more than a name":                 {wire(opLookup, 0, "name\x00more"), fuse.EIO},
		"a short fixed part":               {wire(opOpen, 4, ""), fuse.EIO},
		"an opcode of the future":          {wire(99, 0, ""), fuse.ENOSYS},
		"an opcode between":                {wire(7, 0, ""), fuse.ENOSYS},
		"INIT again":                       {wire(opInit, 64, ""), fuse.ENOSYS},
	} {
		t.Run(name, func(t *testing.T) {
			var q query
			require.Equal(t, c.want, decode(c.b, &q))
		})
	}
}

func TestInitOfAnotherProtocolIsRefused(t *testing.T) {
	version := func(opcode, major, minor uint32) []byte {
		b := wire(opcode, 64, "")
		binary.NativeEndian.PutUint32(b[headerSize:], major)
		binary.NativeEndian.PutUint32(b[headerSize+4:], minor)
		return b
	}
	in, err := decodeInit(version(opInit, 7, 45))
	require.NoError(t, err)
	require.EqualValues(t, 45, in.Minor)
	_, err = decodeInit(version(opInit, 7, 31)[:headerSize+initInOldSize])
	require.NoError(t, err, "Linux 5.4")
	for _, b := range [][]byte{version(opInit, 7, 30), version(opInit, 8, 0), version(opLookup, 7, 45), version(opInit, 7, 45)[:50], nil} {
		_, err := decodeInit(b)
		require.ErrorIs(t, err, ErrProtocol)
	}
}

// TestEnosysIsKeptFromWhatOpensOrChanges is the list of those for which ENOSYS
// would be a hole, or would turn an operation off for the whole mount.
func TestEnosysIsKeptFromWhatOpensOrChanges(t *testing.T) {
	for _, name := range []string{
		"SETATTR", "SYMLINK", "MKNOD", "MKDIR", "UNLINK", "RMDIR", "RENAME", "LINK", "OPEN", "READ", "WRITE", "RELEASE", "SETXATTR", "REMOVEXATTR",
		"CREATE", "IOCTL", "FALLOCATE", "RENAME2", "COPY_FILE_RANGE", "TMPFILE", "COPY_FILE_RANGE_64", "LOOKUP", "GETATTR", "READDIR", "READDIRPLUS", "READLINK",
	} {
		found := false
		for _, op := range operations {
			if op.name == name {
				found = true
				require.False(t, op.allowENOSYS, name)
				require.NotNil(t, op.do, name)
			}
		}
		require.True(t, found, name)
	}
}

// FuzzRequest feeds readers what no kernel would send: whatever the input, there is one
// well-formed answer or none, and no panic.
func FuzzRequest(f *testing.F) {
	for op := range uint32(60) {
		f.Add(wire(op, 40, "name\x00other\x00"))
		f.Add(wire(op, 8, "\x00\x00"))
	}
	c := offline(f, &testFS{})
	r, err := newReader(c)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, b []byte) {
		n := copy(r.in, b)
		if n >= headerSize { // what a length alone would refuse is tested above
			binary.NativeEndian.PutUint32(r.in, uint32(n))
		}
		c.dev.waiting.Store(2)
		r.handle(n)
		got := answers(t, c)
		require.LessOrEqual(t, len(got), 1)
		for _, h := range got {
			require.Equal(t, binary.NativeEndian.Uint64(r.in[8:]), h.Unique)
			require.True(t, h.Status <= 0 && h.Status > -512, h.Status)
			op := binary.NativeEndian.Uint32(r.in[4:])
			if h.Status == -int32(fuse.ENOSYS) {
				require.True(t, int(op) < len(operations) && operations[op].allowENOSYS, nameOf(op))
			}
		}
	})
}
