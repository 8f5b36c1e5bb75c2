package lockd

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A use is had where the lease is held for writing, keeps it, and ends with it.
func TestUseIsOfALeaseThatIsHeld(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "s"))
	ann, bob := join(t, s.Path, "ann", holds(HoldClose)), join(t, s.Path, "bob", holds(HoldClose))
	ctx := context.Background()
	require.Nil(t, ann.Use("f", "open-write"), "nothing is held yet")
	tk, err := ann.Acquire(ctx, Request{Paths: []string{"f"}})
	require.NoError(t, err)
	u := ann.Use("f", "open-write")
	require.NotNil(t, u)
	tk.Done()
	_, err = bob.Acquire(ctx, Request{Paths: []string{"f"}})
	var conflict *ConflictError
	require.ErrorAs(t, err, &conflict, "the use keeps the lease")
	u.Done()
	require.Nil(t, ann.Use("f", "open-write"), "and its end gives it back")
	require.Eventually(t, func() bool {
		tk, err := bob.Acquire(ctx, Request{Paths: []string{"f"}, Mode: Read})
		if err != nil {
			return false
		}
		defer tk.Done()
		require.Nil(t, bob.Use("f", "open-write"), "a lease to read does not do")
		return true
	}, 30*time.Second, time.Millisecond)
}

// What an agent has already costs no allocation.
func TestUseAllocatesNothing(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "s"))
	ann := join(t, s.Path, "ann", holds(HoldMerge))
	tk, err := ann.Acquire(context.Background(), Request{Paths: []string{"src/main.go"}})
	require.NoError(t, err)
	defer tk.Done()
	n := testing.AllocsPerRun(1000, func() { ann.Use("src/main.go", "open-write").Done() })
	require.Less(t, n, 1.0)
}
