package agenttext

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsersAreNamedInMessages(t *testing.T) {
	for _, c := range []struct {
		message string
		data    map[string]any
		want    string
	}{
		{"question a.1 was answered by user:0: deny", map[string]any{"by": "user:0"}, "question a.1 was answered by root: deny"},
		{"user:0 took the lock on f from user:4294967294", map[string]any{"by": "user:0", "holder": "user:4294967294"}, "root took the lock on f from user:4294967294"},
		{"f is held by user:0", map[string]any{"holder": "user:0"}, "f is held by root"},
		{"user:00 and user:0 and xuser:0", map[string]any{"by": "user:0"}, "user:00 and root and xuser:0"},
		{"write of user:0 by ann", map[string]any{"by": "ann", "path": "user:0"}, "write of user:0 by ann"},
		{"write of user:0", map[string]any{"by": 7}, "write of user:0"},
		{"write of user:0", nil, "write of user:0"},
	} {
		require.Equal(t, c.want, Named(c.message, c.data))
	}
}
