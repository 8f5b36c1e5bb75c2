package shim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
	"polis/lockd"
)

func TestTheLastRuleThatNamesAPathCounts(t *testing.T) {
	r, err := compileLockRules(wire.Spec{Hold: "30s", Wait: setting.Duration(3 * time.Second), LockRules: []setting.LockRule{
		{Glob: "docs/", OnConflict: "fail"},
		{Glob: "*.md", Hold: "merge", OnConflict: "1s"},
		{Glob: "/docs/free.md", Hold: "close"},
		{Glob: "ref:*", Hold: "1m"},
	}})
	require.NoError(t, err)
	for path, want := range map[string]struct {
		hold lockd.Hold
		wait time.Duration
	}{
		"main.go":         {lockd.Hold(30 * time.Second), 3 * time.Second},
		"docs/a.txt":      {lockd.Hold(30 * time.Second), 0},
		"docs/deep/b.txt": {lockd.Hold(30 * time.Second), 0},
		"docs/a.md":       {lockd.HoldMerge, time.Second},
		"docs/free.md":    {lockd.HoldClose, time.Second},
		"src/free.md":     {lockd.HoldMerge, time.Second},
		"ref:x":           {lockd.Hold(time.Minute), 3 * time.Second}, // a file of that name
	} {
		require.Equal(t, want.hold, r.holdFor(lockd.FileKey(path)), path)
		require.Equal(t, want.wait, r.waitFor(lockd.FileKey(path)), path)
	}
	for _, bad := range []wire.Spec{
		{Hold: ""}, {Hold: "1s", LockRules: []setting.LockRule{{Glob: ""}}},
		{Hold: "1s", LockRules: []setting.LockRule{{Glob: "x", Hold: "y"}}}, {Hold: "1s", LockRules: []setting.LockRule{{Glob: "x", OnConflict: "y"}}},
	} {
		_, err := compileLockRules(bad)
		require.Error(t, err)
	}
}
