package wire

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/internal/nonzero"
)

// keys returns the object that v is in JSON.
func keys(t *testing.T, v any) map[string]any {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(b, &out))
	return out
}

// TestAFileOfAnEarlierPolisIsReadWhole: the files were written with all fields that there were at version 39. A key
// that is missing afterwards is one that an older shim, or an older polisd, has under another name.
func TestAFileOfAnEarlierPolisIsReadWhole(t *testing.T) {
	for file, v := range map[string]any{"testdata/spec.json": &Spec{}, "testdata/settings.json": &SettingsRequest{}} {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(v), file)
		got := keys(t, v)
		for key, want := range keys(t, json.RawMessage(b)) {
			require.Equal(t, want, got[key], "%s of %s", key, file)
		}
	}
}

// TestEverySettingIsAKeyOfTheSpecAndOfARequest: a field of the outer type with the name or the key of a setting would
// hide it, and it would silently be lost.
func TestEverySettingIsAKeyOfTheSpecAndOfARequest(t *testing.T) {
	full := nonzero.Of[Settings]()
	require.Empty(t, nonzero.Missing(full))
	for key, want := range keys(t, full) {
		require.Equal(t, want, keys(t, Spec{Settings: full})[key], "%s in the spec", key)
		require.Equal(t, want, keys(t, SettingsRequest{Settings: full})[key], "%s in a request", key)
	}
	b, err := json.Marshal(nonzero.Of[Spec]())
	require.NoError(t, err)
	var spec Spec
	require.NoError(t, json.Unmarshal(b, &spec))
	require.Equal(t, nonzero.Of[Spec](), spec)
	require.Empty(t, nonzero.Missing(spec.Settings))
	b, err = json.Marshal(SettingsRequest{Settings: full, Force: true})
	require.NoError(t, err)
	var req SettingsRequest
	require.NoError(t, json.Unmarshal(b, &req))
	require.Equal(t, SettingsRequest{Settings: full, Force: true}, req)
}
