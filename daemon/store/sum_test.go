package store

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func stateWithRules() State {
	return State{Version: StateVersion, Agents: []Agent{{Name: "alice", Role: "docs", Policy: api.Policy{
		Read: []string{"**"}, Write: []string{"docs/**"}, Ask: []string{"go.mod"}, Deny: []string{"secret/**"}, Hide: []string{".env*"}}, Egress: []string{"none"}}}}
}

// TestNoBitFlipIsBelieved: every bit of the file, one after the other. What is read is what
// was written, or nothing; so no agent has more rights by it.
func TestNoBitFlipIsBelieved(t *testing.T) {
	b, err := json.MarshalIndent(stateWithRules(), "", "  ")
	require.NoError(t, err)
	b = addSum(append(b, '\n'))
	var want State
	require.NoError(t, Decode(b, &want))
	require.Equal(t, stateWithRules().Agents, want.Agents)
	flips := 0
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			var got State
			if Decode(b, &got) == nil {
				t.Errorf("bit %d of byte %d (%q) was flipped, and the file was believed", bit, i, b[max(0, i-10):i+1])
			}
			flips++
			b[i] ^= 1 << bit
		}
	}
	require.Greater(t, flips, 3000)
	for name, damage := range map[string]func([]byte) []byte{
		"cut short":     func(b []byte) []byte { return b[:len(b)-3] },
		"text after it": func(b []byte) []byte { return append(b, "{}"...) },
		"two of them":   func(b []byte) []byte { return append(b, b...) },
		"empty":         func([]byte) []byte { return nil },
	} {
		var got State
		require.Error(t, Decode(damage(append([]byte{}, b...)), &got), name)
	}
}

// TestAFileWithoutAChecksumIsTakenOnce if every key of it is known, and has one then.
func TestAFileWithoutAChecksumIsTakenOnce(t *testing.T) {
	p := filepath.Join(t.TempDir(), "state.json")
	require.NoError(t, WriteJSON(p, stateWithRules()))
	good := func(s State) error {
		if s.Version < 1 {
			return errors.New("no version")
		}
		return nil
	}
	var st State
	_, err := ReadKept(p, &st, time.Now(), good)
	require.NoError(t, err)
	require.Equal(t, []string{"secret/**"}, st.Agents[0].Policy.Deny)
	require.NoError(t, WriteKept(p, st))
	b, err := os.ReadFile(p)
	require.NoError(t, err)
	require.Contains(t, string(b), sumHead)
	_, err = ReadKept(p, &st, time.Now(), good)
	require.NoError(t, err)

	for name, text := range map[string]string{
		"of the state":     `{"version": 2, "agent": []}`,
		"of an agent":      `{"version": 2, "agents": [{"name": "alice", "polic": {}}]}`,
		"of a policy":      `{"version": 2, "agents": [{"name": "alice", "policy": {"dena": ["**"]}}]}`,
		"of one removed":   `{"version": 2, "removed": [{"agent": {"policy": {"hidd": ["x"]}}}]}`,
		"a damaged sum":    "{\n  \"checksul\": \"sha256:00\",\n  \"version\": 2\n}",
		"a sum of nothing": "{\n  \"checksum\": \"sha256:00\",\n  \"version\": 2\n}",
	} {
		require.NoError(t, os.WriteFile(p, []byte(text), 0o600))
		var st State
		restored, err := ReadKept(p, &st, time.Now(), good)
		require.ErrorIs(t, err, ErrCorrupt, name)
		require.True(t, restored, name)
		require.Equal(t, []string{"secret/**"}, st.Agents[0].Policy.Deny, "from the one before")
		require.NoFileExists(t, p, "renamed")
	}
}

// TestAFileOfANewerProgramStays: it is whole, and its keys have a meaning.
func TestAFileOfANewerProgramStays(t *testing.T) {
	p := filepath.Join(t.TempDir(), "state.json")
	require.NoError(t, WriteKept(p, struct {
		Version int    `json:"version"`
		Future  string `json:"future"`
	}{2, "x"}))
	var st State
	_, err := ReadKept(p, &st, time.Now(), func(State) error { return nil })
	require.ErrorIs(t, err, ErrNewer)
	require.FileExists(t, p)
	require.ErrorIs(t, ReadSummed(p, &st), ErrNewer)
	require.ErrorIs(t, ReadSummed(p+".none", &st), fs.ErrNotExist)
}
