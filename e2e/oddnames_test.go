package e2e

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestNamesThatAreNotUTF8 are listed and brought back as they are: JSON has no such text, and two names must
// not become one.
func TestNamesThatAreNotUTF8(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.add("bob")
	const one, two, names = "caf\xe9.txt", "caf\xe8.txt", `one=$(printf 'caf\351.txt'); two=$(printf 'caf\350.txt'); `
	d.sh("alice", names+`echo 1 >"$one"; echo 2 >"$two"; git add -A; `+ident+`git commit -qm odd`)
	d.must("merge", "alice")
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "alice")

	// An explicit lock cannot have such a name: it is refused, and no other name is locked.
	require.Contains(t, d.refused(api.CodeBadRequest, "lock", one).Message, `"caf\xe9.txt" is not UTF-8`)
	require.Contains(t, d.exec("alice", "sh", "-c", names+`polisctl lock "$two"`).stderr, "is not UTF-8")
	d.sh("alice", names+`echo x >"$one"; echo x >"$two"`)
	d.eventually("both leases are listed, by their own names", func() bool {
		var out struct{ Locks []struct{ Path string } }
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "locks")), &out))
		var paths []string
		for _, l := range out.Locks {
			paths = append(paths, l.Path)
		}
		return len(paths) == 2 && slices.Contains(paths, api.EncodePath(one)) && slices.Contains(paths, api.EncodePath(two))
	})
	require.Contains(t, d.must("locks"), `caf\xe8.txt`)
	d.sh("alice", "git checkout -q .")

	// One of them is brought back, the other stays.
	d.must("checkpoint", "alice")
	d.sh("alice", names+`echo changed >"$one"; echo changed >"$two"`)
	e := d.refused(api.CodeUnsavedWork, "agents", "remove", "alice")
	require.ElementsMatch(t, []any{api.EncodePath(one), api.EncodePath(two)}, e.Details["paths"])
	require.Equal(t, []string{one}, d.rewind("alice", one).Paths)
	require.Equal(t, "1\nchanged\n", d.sh("alice", names+`cat "$one" "$two"`))
}
