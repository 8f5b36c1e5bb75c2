package codexpatch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzRename(f *testing.F) {
	f.Add("*** Begin Patch\n*** Add File: a\n+x\n*** Update File: b/c \r\n*** Move to: d\n*** End Patch\n")
	f.Add("no patch *** Add File: a")
	f.Fuzz(func(t *testing.T, patch string) {
		var first, again []string
		same := Rename(patch, func(p string) string { first = append(first, p); return p })
		require.Equal(t, patch, same)
		Rename(patch, func(p string) string { again = append(again, p); return "/" + p })
		require.Equal(t, first, again)
	})
}

func TestNamesAreReplaced(t *testing.T) {
	got := Rename("*** Begin Patch\n*** Add File: a\n+*** x\n*** Update File: b/c \r\n*** Move to: d", func(p string) string { return "/" + p })
	require.Equal(t, "*** Begin Patch\n*** Add File: /a\n+*** x\n*** Update File: /b/c \r\n*** Move to: /d", got)
}
