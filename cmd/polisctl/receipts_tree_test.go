package main

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The hash is that of git; the numbers are from git-mktree(1).
func TestWriteTree(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []*tar.Header{
		{Typeflag: tar.TypeReg, Name: "a\xff\n", Size: 2, Mode: 0o644},
		{Typeflag: tar.TypeReg, Name: "a/run", Size: 2, Mode: 0o755},
		{Typeflag: tar.TypeSymlink, Name: "a/to", Linkname: "/etc/passwd"},
		{Typeflag: tar.TypeReg, Name: "a.b", Size: 2, Mode: 0o644},
		{Typeflag: tar.TypeDir, Name: "sub/", Mode: 0o755, PAXRecords: map[string]string{archiveCommit: strings.Repeat("12", 20)}},
	} {
		require.NoError(t, w.WriteHeader(h))
		if h.Size > 0 {
			_, err := w.Write([]byte("x\n"))
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	dir := filepath.Join(t.TempDir(), "new")
	files, tree, err := writeTree(bytes.NewReader(b.Bytes()), dir, strings.Repeat("0", 40))
	require.NoError(t, err)
	require.Equal(t, 5, files)
	require.Equal(t, "a6f0f928d7fafe6597b0035b41ef3f9946d46f25", tree)
	to, err := os.Readlink(filepath.Join(dir, "a/to"))
	require.NoError(t, err)
	require.Equal(t, "/etc/passwd", to)
	fi, err := os.Stat(filepath.Join(dir, "a/run"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), fi.Mode().Perm())
	_, _, err = writeTree(bytes.NewReader(b.Bytes()), dir, "")
	require.ErrorIs(t, err, os.ErrExist, "never into a directory that exists")
	_, tree, err = writeTree(bytes.NewReader(b.Bytes()), dir+"2", strings.Repeat("0", 64))
	require.NoError(t, err)
	require.Len(t, tree, 64)
}

// Whatever an archive has, nothing is outside of the directory.
func TestWriteTreeOfHostileArchives(t *testing.T) {
	reg := func(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644} }
	link := func(name, to string) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	for name, all := range map[string][]*tar.Header{
		"above":                 {reg("../x")},
		"absolute":              {reg("/x")},
		"a dot":                 {reg("a/./x")},
		"below a link":          {link("a", ".."), reg("a/x")},
		"twice":                 {reg("x"), link("x", "/etc")},
		"a hard link":           {{Typeflag: tar.TypeLink, Name: "x", Linkname: "/etc/shadow"}},
		"a device":              {{Typeflag: tar.TypeChar, Name: "x"}},
		"a submodule":           {{Typeflag: tar.TypeDir, Name: "x/", PAXRecords: map[string]string{archiveCommit: "zz"}}},
		"a file as a directory": {reg("x"), reg("x/y")},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for _, h := range all {
				require.NoError(t, w.WriteHeader(h))
			}
			require.NoError(t, w.Close())
			top := t.TempDir()
			_, _, err := writeTree(&b, filepath.Join(top, "new"), "")
			require.Error(t, err)
			left, err := os.ReadDir(top)
			require.NoError(t, err)
			require.LessOrEqual(t, len(left), 1, "nothing but the new directory")
		})
	}
	_, _, err := writeTree(strings.NewReader("cut short"), filepath.Join(t.TempDir(), "new"), "")
	require.Error(t, err)
}
