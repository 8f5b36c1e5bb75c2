package view

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/tempfile"
)

// What one agent has made costs another one nothing, and the agent itself no other operation.
func TestTooManyTemporaryFilesOfOneAgentAreItsOwn(t *testing.T) {
	one, other := newTempView(t, oneFile), newTempView(t, oneFile)
	make1 := func(v *tempView, name string) error { return os.WriteFile(v.at(name), []byte("x"), 0o644) }
	for i := range tempfile.Max {
		require.NoError(t, make1(one, fmt.Sprint("src/n", i)))
	}
	one.denials()
	for _, err := range []error{
		make1(one, "src/more"), os.Rename(one.at("src/f"), one.at("src/aside")), unix.Mknod(one.at("src/node"), unix.S_IFREG|0o644, 0),
		os.Rename(one.at("src/f"), one.at("src/sedABC123")),
	} {
		require.ErrorIs(t, err, unix.EDQUOT)
	}
	refused := one.denials()
	require.Len(t, refused, 4)
	for _, d := range refused {
		require.Equal(t, CodeQuota, d.Code)
		require.Contains(t, d.Rule, tempKey)
		require.Contains(t, d.Hint, "remove the temporary files")
	}
	_, err := os.Lstat(one.at("src/more"))
	require.ErrorIs(t, err, unix.ENOENT)

	// The other agent, its files and those that the rules permit are as before.
	for i := range tempfile.Max {
		require.NoError(t, make1(other, fmt.Sprint("src/n", i)))
	}
	require.ErrorIs(t, make1(other, "src/more"), unix.EDQUOT)
	require.NoError(t, make1(one, "src/f"))
	require.NoError(t, make1(one, "src/n7"))
	require.NoError(t, os.Rename(one.at("src/f"), one.at("src/n7")), "it takes the place of another one")
	require.NoError(t, os.Rename(one.at("src/n8"), one.at("src/f")))
	require.NoError(t, make1(one, "src/more"))
	require.ErrorIs(t, make1(one, "src/more2"), unix.EDQUOT)

	// The bound holds in the next process too, also if its record is lost as soon as the files are used.
	one.again()
	require.ErrorIs(t, make1(one, "src/more2"), unix.EDQUOT)
	one.unmount()
	require.NoError(t, os.Remove(filepath.Join(one.keep, tempfile.RecordName)))
	one.mount()
	for i := range tempfile.Max {
		if _, err := os.ReadFile(one.at(fmt.Sprint("src/n", i))); err != nil {
			require.ErrorIs(t, err, unix.ENOENT)
		}
	}
	_, err = os.ReadFile(one.at("src/more"))
	require.NoError(t, err)
	require.ErrorIs(t, make1(one, "src/more2"), unix.EDQUOT)

	// What is removed behind the view makes room.
	require.NoError(t, os.Remove(filepath.Join(one.back, "src/n9")))
	require.NoError(t, make1(one, "src/more2"))
}

// Files that come and go leave nothing that grows, by whatever they go.
func TestTemporaryFilesThatComeAndGoLeaveNothing(t *testing.T) {
	v := newTempView(t, oneFile)
	for i := range 5 * tempfile.Max {
		name := v.at(fmt.Sprint("src/n", i))
		require.NoError(t, os.WriteFile(name, nil, 0o644))
		switch i % 3 {
		case 0:
			require.NoError(t, os.Remove(name))
		case 1:
			require.NoError(t, os.Rename(name, v.at("src/f")))
		case 2:
			require.NoError(t, os.Rename(v.at("src/g"), name))
			require.NoError(t, os.Rename(name, v.at("src/g")))
		}
	}
	require.Empty(t, v.table.Paths())
	fi, err := os.Stat(filepath.Join(v.keep, tempfile.RecordName))
	require.NoError(t, err)
	require.Less(t, fi.Size(), int64(3*tempfile.Max*len("src/n1000.")))
}

// The record is in the directory that has its path, whatever happens to that.
func TestTheRecordFollowsItsDirectory(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, v *tempView){
		"the directory is removed":  func(t *testing.T, v *tempView) { require.NoError(t, os.RemoveAll(v.keep)) },
		"the directory is replaced": func(t *testing.T, v *tempView) { require.NoError(t, os.Rename(v.keep, v.keep+"-old")) },
		"the record is removed": func(t *testing.T, v *tempView) {
			require.NoError(t, os.Remove(filepath.Join(v.keep, tempfile.RecordName)))
		},
		"the record is replaced": func(t *testing.T, v *tempView) {
			record := filepath.Join(v.keep, tempfile.RecordName)
			require.NoError(t, os.WriteFile(record+"-new", []byte("other"), 0o600))
			require.NoError(t, os.Rename(record+"-new", record))
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTempView(t, oneFile)
			require.NoError(t, os.WriteFile(v.at("src/n"), []byte("n"), 0o644))
			change(t, v)
			if _, err := os.Stat(v.keep); err != nil { // while it is missing, a file is not made that could not be recorded
				v.denials()
				require.ErrorIs(t, os.WriteFile(v.at("src/o"), nil, 0o644), unix.EDQUOT)
				refused := v.denials()
				require.Len(t, refused, 1)
				require.Contains(t, refused[0].Rule, "cannot be recorded")
				require.NoError(t, os.Mkdir(v.keep, 0o700))
			}
			require.NoError(t, os.Rename(v.at("src/f"), v.at("src/m")))
			v.again()
			require.Equal(t, []string{"src/m", "src/n"}, v.table.Paths())
		})
	}
}
