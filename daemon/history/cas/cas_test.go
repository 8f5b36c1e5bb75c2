package cas

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func open(t testing.TB, dir string) *Store {
	s, err := Open(context.Background(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t testing.TB, s *Store, limit int64, contents ...string) []Hash {
	b, err := s.Begin(context.Background(), limit)
	require.NoError(t, err)
	var out []Hash
	for _, c := range contents {
		h, err := b.PutBytes([]byte(c))
		require.NoError(t, err)
		out = append(out, h)
	}
	require.NoError(t, b.Commit())
	require.NoError(t, b.Close())
	return out
}

func TestEqualContentIsStoredOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	hs := put(t, s, 0, "one", "two", "one", "")
	require.Equal(t, hs[0], hs[2])
	require.Equal(t, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", hs[3].String())
	put(t, s, 0, "one")
	bytes, objects := s.Used()
	require.Equal(t, []int64{6, 3}, []int64{bytes, int64(objects)})
	b, err := s.Bytes(hs[1], 10)
	require.NoError(t, err)
	require.Equal(t, "two", string(b))
	_, err = s.Bytes(hs[1], 2)
	require.Error(t, err, "a bound")
	_, err = s.Bytes(Sum([]byte("none")), 10)
	require.ErrorIs(t, err, ErrMissing)
	require.NoError(t, s.Close())
	again := open(t, dir)
	bytes, objects = again.Used()
	require.Equal(t, []int64{6, 3}, []int64{bytes, int64(objects)}, "measured again")
}

// TestPropertyFilesOfAnySizeComeBack: small ones, large ones, with holes, on both sides of the
// bound between the two ways to read them.
func TestPropertyFilesOfAnySizeComeBack(t *testing.T) {
	s, dir := open(t, t.TempDir()), t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, 4096, smallFile - 1, smallFile, smallFile + 1, 2*smallFile + 7}).Draw(t, "size")
		seed := rapid.Byte().Draw(t, "seed")
		want := bytes.Repeat([]byte{seed}, size)
		n++
		name := filepath.Join(dir, "f")
		require.NoError(t, os.WriteFile(name, want, 0o600))
		f, err := os.Open(name)
		require.NoError(t, err)
		defer f.Close()
		b, err := s.Begin(context.Background(), 0)
		require.NoError(t, err)
		h, got, err := b.Put(f)
		require.NoError(t, err)
		require.Equal(t, int64(size), got)
		require.Equal(t, Sum(want), h)
		require.NoError(t, b.Commit())
		require.NoError(t, b.Close())
		var out bytes.Buffer
		_, err = s.Copy(&out, h)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, out.Bytes()))
	})
}

func TestDamagedContentIsNeverReadToItsEnd(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	h := put(t, s, 0, strings.Repeat("good ", 1000))[0]
	file := filepath.Join(dir, path(h))
	require.NoError(t, os.Chmod(file, 0o600))
	for name, damage := range map[string][]byte{
		"changed":   []byte(strings.Repeat("evil ", 1000)),
		"cut short": []byte("good "),
		"longer":    []byte(strings.Repeat("good ", 1001)),
		"empty":     nil,
	} {
		require.NoError(t, os.WriteFile(file, damage, 0o600))
		_, err := s.Copy(io.Discard, h)
		require.ErrorIs(t, err, ErrCorrupt, name)
		_, err = s.Bytes(h, 1<<20)
		require.ErrorIs(t, err, ErrCorrupt, name)
	}
	require.NoError(t, os.WriteFile(file, []byte("good "), 0o600))
	put(t, s, 0, strings.Repeat("good ", 1000))
	_, err := s.Copy(io.Discard, h)
	require.NoError(t, err, "an object of another size is replaced")
}

// A damaged object of the right size is replaced by a batch that verifies, and only by that.
func TestABatchThatVerifiesReplacesWhatIsDamaged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	h := put(t, s, 0, "one")[0]
	file := filepath.Join(dir, filepath.FromSlash(path(h)))
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(file, []byte("0ne"), 0o400))
	for _, verify := range []bool{false, true} {
		b, err := s.Begin(t.Context(), 0)
		require.NoError(t, err)
		b.Verify = verify
		_, err = b.PutBytes([]byte("one"))
		require.NoError(t, err)
		require.NoError(t, b.Commit())
		require.NoError(t, b.Close())
		got, err := s.Bytes(h, 10)
		if !verify {
			require.ErrorIs(t, err, ErrCorrupt)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "one", string(got))
	}
	bytes, objects := s.Used()
	require.Equal(t, []int64{3, 1}, []int64{bytes, int64(objects)})
}

func TestABatchThatIsNotCommittedLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	b, err := s.Begin(t.Context(), 0)
	require.NoError(t, err)
	h, err := b.PutBytes([]byte("work"))
	require.NoError(t, err)
	_, err = s.Open(h)
	require.ErrorIs(t, err, ErrMissing, "not before Commit")
	left, err := os.ReadDir(filepath.Join(dir, stageDir))
	require.NoError(t, err)
	require.Len(t, left, 1)

	// The process dies here: another opens the store.
	again := open(t, dir)
	left, err = os.ReadDir(filepath.Join(dir, stageDir))
	require.NoError(t, err)
	require.Empty(t, left)
	used, n := again.Used()
	require.Equal(t, []int64{0, 0}, []int64{used, int64(n)})

	b2, err := again.Begin(t.Context(), 0)
	require.NoError(t, err)
	_, err = b2.PutBytes([]byte("work"))
	require.NoError(t, err)
	require.Equal(t, int64(4), b2.Added())
	require.NoError(t, b2.Close())
	left, err = os.ReadDir(filepath.Join(dir, stageDir))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestTheBoundRefusesBeforeAnythingIsWritten(t *testing.T) {
	s := open(t, t.TempDir())
	put(t, s, 10, "12345")
	b, err := s.Begin(t.Context(), 10)
	require.NoError(t, err)
	_, err = b.PutBytes([]byte("12345"))
	require.NoError(t, err, "it is there already")
	_, err = b.PutBytes([]byte("abcde"))
	require.NoError(t, err)
	_, err = b.PutBytes([]byte("x"))
	require.ErrorIs(t, err, ErrFull)
	require.NoError(t, b.Close())
	big := filepath.Join(t.TempDir(), "big")
	require.NoError(t, os.WriteFile(big, nil, 0o600))
	require.NoError(t, os.Truncate(big, 2*smallFile))
	f, err := os.Open(big)
	require.NoError(t, err)
	defer f.Close()
	b, err = s.Begin(t.Context(), smallFile)
	require.NoError(t, err)
	_, _, err = b.Put(f)
	require.ErrorIs(t, err, ErrFull)
	require.NoError(t, b.Close())
}

func TestSweepRemovesWhatNothingNeeds(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	hs := put(t, s, 0, "kept", "unneeded")
	strange := filepath.Join(dir, objectsDir, "README")
	require.NoError(t, os.Mkdir(filepath.Join(dir, objectsDir, "zz"), 0o700))
	require.NoError(t, os.Mkdir(strange, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(strange, "mine"), []byte("x"), 0o600))
	sweep, err := s.Begin(t.Context(), 0)
	require.NoError(t, err)
	got, err := sweep.Sweep(t.Context(), func(h Hash) bool { return h == hs[0] })
	require.NoError(t, err)
	require.NoError(t, sweep.Close())
	require.Equal(t, Swept{Objects: 1, Bytes: 8}, got)
	require.FileExists(t, filepath.Join(strange, "mine"), "not an object")
	_, err = s.Bytes(hs[0], 100)
	require.NoError(t, err)
	_, err = s.Bytes(hs[1], 100)
	require.ErrorIs(t, err, ErrMissing)
	used, n := s.Used()
	require.Equal(t, []int64{4, 1}, []int64{used, int64(n)})

	// One at a time, and no wait without an end.
	b, err := s.Begin(t.Context(), 0)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Begin(ctx, 0)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, b.Close())
}

func TestAHashHasOneSpelling(t *testing.T) {
	h := Sum([]byte("x"))
	got, err := Parse(h.String())
	require.NoError(t, err)
	require.Equal(t, h, got)
	for _, bad := range []string{"", h.String()[:63], h.String() + "0", strings.ToUpper(h.String()), strings.Repeat("g", 64), " " + h.String()[1:]} {
		_, err := Parse(bad)
		require.Error(t, err, bad)
	}
}

func TestAMeasuredBatchReturnsHowMuchHasNoRoom(t *testing.T) {
	s := open(t, t.TempDir())
	put(t, s, 10, "12345")
	b, err := s.Begin(t.Context(), 10)
	require.NoError(t, err)
	b.Measure = true
	for _, text := range []string{"abc", "12345", "defg", "defg", "hi"} {
		h, err := b.PutBytes([]byte(text))
		require.NoError(t, err)
		require.Equal(t, Sum([]byte(text)), h)
	}
	require.Equal(t, int64(3), b.Added())
	var full *FullError
	require.ErrorAs(t, b.Commit(), &full)
	require.ErrorIs(t, full, ErrFull)
	require.Equal(t, FullError{Need: 9, Used: 5, Limit: 10}, *full)
	require.Equal(t, int64(4), full.Missing())
	_, err = b.PutBytes([]byte("more than all"))
	require.ErrorIs(t, err, ErrFull, "no more is read")
	require.NoError(t, b.Close())
	_, n := s.Used()
	require.Equal(t, 1, n)
}
