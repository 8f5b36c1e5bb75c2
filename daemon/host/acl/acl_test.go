package acl

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/internal/need"
)

func TestAListIsDecodedAsItWasEncoded(t *testing.T) {
	list := []Entry{{Tag: UserObj, Perm: 7}, {Tag: User, Perm: 5, ID: 1000}, {Tag: GroupObj}, {Tag: Group, Perm: 4, ID: 7}, {Tag: Mask, Perm: 5}, {Tag: Other}}
	got, err := Decode(Encode(list...))
	require.NoError(t, err)
	for i := range list {
		if list[i].Tag != User && list[i].Tag != Group {
			list[i].ID = noID
		}
	}
	require.Equal(t, list, got)
	for _, bad := range [][]byte{nil, {2, 0, 0}, {1, 0, 0, 0}, append(Encode(list...), 0)} {
		_, err := Decode(bad)
		require.ErrorIs(t, err, ErrFormat, bad)
	}
}

func TestAListIsEvaluatedAsTheKernelDoes(t *testing.T) {
	const owner, group, x = 10, 20, Execute
	mode := []Entry{{Tag: UserObj, Perm: 6}, {Tag: GroupObj}, {Tag: Other, Perm: 1}}
	named := []Entry{{Tag: UserObj, Perm: 7}, {Tag: User, Perm: 7, ID: 11}, {Tag: User, Perm: 4, ID: 12}, {Tag: GroupObj}, {Tag: Group, Perm: 5, ID: 21}, {Tag: Mask, Perm: 5}, {Tag: Other, Perm: 1}}
	masked := []Entry{{Tag: UserObj, Perm: 7}, {Tag: User, Perm: 7, ID: 11}, {Tag: GroupObj, Perm: 7}, {Tag: Mask}, {Tag: Other, Perm: 7}}
	for _, c := range []struct {
		list     []Entry
		uid, gid uint32
		want     bool
		why      string
	}{
		{mode, 10, 20, false, "the owner has the bits of the owner, no others"},
		{mode, 11, 20, false, "a member of the group has the bits of the group"},
		{mode, 11, 21, true, "others"},
		{named, 11, 99, true, "a named user"},
		{named, 12, 21, false, "a named user has no other bits"},
		{named, 13, 20, false, "the group of the file"},
		{named, 13, 21, true, "a named group"},
		{named, 13, 99, true, "others"},
		{masked, 11, 99, false, "the mask bounds named users"},
		{masked, 13, 20, false, "the mask bounds the group"},
		{nil, 13, 20, false, "nothing is granted"},
	} {
		require.Equal(t, c.want, Allowed(c.list, owner, group, c.uid, c.gid, x), c.why)
	}
	require.False(t, Allowed(named, owner, group, 11, 99, Write), "the mask")
}

func TestTheListOfAFile(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o751))
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer f.Close()
	got, err := Of(int(f.Fd()))
	require.NoError(t, err)
	require.Equal(t, []Entry{{Tag: UserObj, Perm: 7}, {Tag: GroupObj, Perm: 5}, {Tag: Other, Perm: 1}}, got, "of its mode")
	want := Encode(Entry{Tag: UserObj, Perm: 7}, Entry{Tag: User, Perm: 5, ID: 1000}, Entry{Tag: GroupObj}, Entry{Tag: Mask, Perm: 5}, Entry{Tag: Other})
	require.NoError(t, unix.Fsetxattr(int(f.Fd()), Attribute, want, 0))
	got, err = Of(int(f.Fd()))
	require.NoError(t, err)
	require.Equal(t, want, Encode(got...))
}
