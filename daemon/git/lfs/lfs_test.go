package lfs_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/git/lfs"
)

func TestPointersAreRead(t *testing.T) {
	oid := strings.Repeat("ab", 32)
	text := "version https://git-lfs.github.com/spec/v1\noid sha256:" + oid + "\nsize 12\n"
	p, ok := lfs.Parse(text)
	require.True(t, ok)
	require.Equal(t, lfs.Pointer{OID: oid, Size: 12}, p)
	for name, bad := range map[string]string{
		"a file": "hello\n", "empty": "", "another hash": strings.Replace(text, "sha256:", "md5:", 1), "a path": strings.Replace(text, oid, "../../"+oid[6:], 1),
		"no size": text[:strings.Index(text, "size")], "a negative size": strings.Replace(text, "12", "-12", 1), "too long": text + strings.Repeat("x", 1000),
		"capitals": strings.Replace(text, oid, strings.ToUpper(oid), 1),
	} {
		_, ok := lfs.Parse(bad)
		require.False(t, ok, name)
	}
}

func TestOnlyWhatItsNameSaysIsCopied(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	src, err := os.Open(from)
	require.NoError(t, err)
	defer src.Close()
	dst, err := os.Open(to)
	require.NoError(t, err)
	defer dst.Close()
	put := func(name, text string) lfs.Pointer {
		sum := sha256.Sum256([]byte(name))
		p := lfs.Pointer{OID: hex.EncodeToString(sum[:]), Size: int64(len(text))}
		at := filepath.Join(from, lfs.Path(p.OID))
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o644))
		return p
	}
	good := put("content", "content")
	require.NoError(t, lfs.Copy(t.Context(), src, dst, good))
	require.NoError(t, lfs.Copy(t.Context(), src, dst, good), "it is there")
	has, err := lfs.Has(dst, good)
	require.NoError(t, err)
	require.True(t, has)
	bad := put("promised", "delivered")
	require.ErrorIs(t, lfs.Copy(t.Context(), src, dst, bad), lfs.ErrContent)
	short := good
	short.Size++
	other := t.TempDir()
	empty, err := os.Open(other)
	require.NoError(t, err)
	defer empty.Close()
	require.ErrorIs(t, lfs.Copy(t.Context(), src, empty, short), lfs.ErrContent)
	require.ErrorIs(t, lfs.Copy(t.Context(), empty, dst, lfs.Pointer{OID: strings.Repeat("0", 64)}), os.ErrNotExist)
	// Holes cost an agent nothing, and the project their size.
	holes := lfs.Pointer{Size: 4 << 20}
	sum := sha256.Sum256(make([]byte, holes.Size))
	holes.OID = hex.EncodeToString(sum[:])
	at := filepath.Join(from, lfs.Path(holes.OID))
	require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(t, os.WriteFile(at, nil, 0o644))
	require.NoError(t, os.Truncate(at, holes.Size))
	require.ErrorIs(t, lfs.Copy(t.Context(), src, dst, holes), lfs.ErrHoles)
	require.NoError(t, os.Remove(at))
	// A link in place of an object leads nowhere.
	link := lfs.Pointer{OID: strings.Repeat("a", 64), Size: 7}
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(from, lfs.Path(link.OID))), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(from, lfs.Path(good.OID)), filepath.Join(from, lfs.Path(link.OID))))
	require.Error(t, lfs.Copy(t.Context(), src, dst, link))
	var found []string
	require.NoError(t, lfs.List(t.Context(), src, func(p lfs.Pointer) error { found = append(found, fmt.Sprint(p.OID, p.Size)); return nil }))
	require.ElementsMatch(t, []string{fmt.Sprint(good.OID, 7), fmt.Sprint(bad.OID, 9)}, found)
	require.NoError(t, filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		require.False(t, strings.HasSuffix(path, ".polis"), "nothing unfinished is left")
		return err
	}))
}
