package server

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/wire"
)

func TestAScreenComesAfterWhatWasInTheLogBefore(t *testing.T) {
	dir := t.TempDir()
	const before, during = "one\ntwo\n", "seen\nseen, changed\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "output.log"), []byte(before+during), 0o600))
	for name, c := range map[string]struct {
		screen wire.Screen
		want   string
	}{
		"no terminal":             {wire.Screen{}, "two\n" + during},
		"a terminal":              {wire.Screen{Terminal: true, Lines: []string{"seen, changed"}, Begin: int64(len(before))}, before + "seen, changed\n"},
		"a full one":              {wire.Screen{Terminal: true, Lines: []string{"a", "b", "c"}, Begin: int64(len(before))}, "a\nb\nc\n"},
		"at an unknown position":  {wire.Screen{Terminal: true, Lines: []string{"a"}, Begin: -1}, "a\n"},
		"it is not in the log":    {wire.Screen{Terminal: true, Lines: []string{"a"}, Begin: 1 << 40}, "seen\nseen, changed\na\n"},
		"it began with the log":   {wire.Screen{Terminal: true, Lines: []string{"a"}}, "a\n"},
		"nothing is on it so far": {wire.Screen{Terminal: true, Begin: int64(len(before))}, before},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := serve(t, streaming{dir: dir, screen: c.screen}).Get("http://polisd/v1/agents/a/logs?lines=3")
			require.NoError(t, err)
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, c.want, string(text))
		})
	}
}
