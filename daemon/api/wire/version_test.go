package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAgree(t *testing.T) {
	for name, c := range map[string]struct{ shim, oldest, want int }{
		"the first shims have one version":  {shim: 1, want: 1},
		"this build's":                      {shim: Version, oldest: MinVersion, want: Version},
		"a newer one that knows ours":       {shim: Version + 3, oldest: Version, want: Version},
		"a newer one that knows an old one": {shim: Version + 3, oldest: 1, want: Version},
		"a newer one that does not":         {shim: Version + 3, oldest: Version + 1},
		"a newer one that has one":          {shim: Version + 1},
		"older than we know":                {shim: MinVersion - 1},
		"one that has none":                 {},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := Agree(Status{Version: c.shim, MinVersion: c.oldest})
			require.Equal(t, c.want, v)
			if c.want == 0 {
				require.ErrorContains(t, err, "protocol version")
			} else {
				require.NoError(t, err)
			}
		})
	}
}
