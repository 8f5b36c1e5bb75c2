package access

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Feature: multi-agent-workspaces, Property: an object that passes has no member that replaces the method
func TestMembersThatPassKeepTheMethod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := []string{"{", "}", "[", "]", ",", ":", "\"", "\\", `"_method"`, `"\u005fmethod"`, `"a"`, `"PUT"`, `"DELETE"`, "1", "null", " ", `{"a":`, `"_method":`, `"x\"_method":`}
		text := "{" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 1, 12).Draw(t, "parts"), "") + "}"
		if _, ok := check("application/json", text); ok {
			checkMembers(t, text)
		}
	})
}

func checkMembers(t tester, text string) {
	t.Helper()
	var members map[string]any
	if json.Unmarshal([]byte(text), &members) != nil {
		return
	}
	for name, value := range members {
		if s, ok := value.(string); Replaces(name) && ok {
			require.Equal(t, "DELETE", valueOf(s), "%q", text)
		}
	}
}
