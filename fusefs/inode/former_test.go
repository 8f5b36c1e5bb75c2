package inode

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the view remembers of names has a limit, and ends with the files and the directories.
func TestFormerNamesHaveALimit(t *testing.T) {
	var f Formers
	n := &Node{ID: 7}
	for i := range 1000 {
		f.Add(2, strconv.Itoa(i), n, false)
	}
	require.False(t, f.Has(2, "0"), "the oldest of one file")
	require.True(t, f.Has(2, "999"))
	for i := range 1 << 17 {
		f.Add(uint64(100+i%1000), strconv.Itoa(i), &Node{ID: uint64(1000 + i)}, false)
	}
	count := 0
	for i := range 1 << 17 {
		if f.Has(uint64(100+i%1000), strconv.Itoa(i)) {
			count++
		}
	}
	require.InDelta(t, 1<<16, count, 64)
	for i := range 1000 {
		f.Forget(uint64(100 + i))
	}
	f.Forget(7)
	require.False(t, f.Any(), "the directories and the file are forgotten")
}
