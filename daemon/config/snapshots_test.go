package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestIgnoredFilesOfSnapshotsAreChecked(t *testing.T) {
	for _, tc := range []struct{ name, list, err string }{
		{"none", ``, ""},
		{"a name", `".env"`, ""},
		{"a pattern of names", `"*.sqlite"`, ""},
		{"a directory", `"data/"`, ""},
		{"all in a directory", `"/data/local/**"`, ""},
		{"everywhere", `"**/.env"`, `snapshots.ignored[0] = "**/.env": "**" can only be the end`},
		{"everything", `"**"`, `"**" can only be the end`},
		{"in the middle", `"ok", "a/**/b"`, "snapshots.ignored[1]"},
		{"twice", `"a/**/b/**"`, "snapshots.ignored[0]"},
		{"negated", `"!.env"`, `cannot begin with "!"`},
		{"no pattern", `"a[b"`, "snapshots.ignored[0]"},
		{"empty", `""`, "snapshots.ignored[0]"},
		{"too many", strings.Repeat(`"a",`, 65), "snapshots.ignored has 65 patterns: the limit is 64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := Parse(fmt.Sprintf("[snapshots]\nignored = [%s]\n", tc.list))
			if tc.err == "" {
				require.NoError(t, err)
				require.Equal(t, tc.list != "", len(c.Snapshots.Ignored) == 1)
				return
			}
			require.ErrorContains(t, err, tc.err)
			require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err))
		})
	}
}
