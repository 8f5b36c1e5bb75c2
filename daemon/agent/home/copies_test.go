package home

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/config"
)

// agent writes a file of the agent's home.
func (h *homes) agent(rel, text string) {
	h.t.Helper()
	require.NoError(h.t, os.WriteFile(filepath.Join(h.spec.Dir, rel), []byte(text), 0o600))
}

func TestCopiesFollowTheOwnersFileUntilTheAgentChangesThem(t *testing.T) {
	h := newHomes(t, config.HomeFile{Path: "settings", Mode: config.HomeCopy})
	for _, text := range []string{"one", "two", "three"} {
		h.has("settings", text)
		h.bring()
		require.Equal(t, text, h.copyOf("settings"))
	}
	h.agent("settings", "mine")
	h.has("settings", "four")
	h.bring()
	require.Equal(t, "mine", h.copyOf("settings"))
	require.Equal(t, "none", h.copyOf("settings"+oldSuffix))
	require.NoError(t, os.Remove(filepath.Join(h.spec.Dir, "settings")))
	h.bring()
	require.Equal(t, "four", h.copyOf("settings"))
	b, err := os.ReadFile(filepath.Join(h.owner, "settings"))
	require.NoError(t, err)
	require.Equal(t, "four", string(b))
}

func TestANewLoginReachesTheAgentAndLosesNothing(t *testing.T) {
	h := newHomes(t, config.HomeFile{Path: ".tool/auth", Mode: config.HomeCredentials})
	h.bring()
	require.Equal(t, "none", h.copyOf(".tool/auth"))
	h.has(".tool/auth", "first login")
	h.bring()
	require.Equal(t, "first login", h.copyOf(".tool/auth"))
	// The agent's program renews its token: nothing takes that away.
	h.agent(".tool/auth", "renewed")
	h.bring()
	require.Equal(t, "renewed", h.copyOf(".tool/auth"))
	// Until the owner logs in again.
	h.has(".tool/auth", "second login")
	h.bring()
	require.Equal(t, "second login", h.copyOf(".tool/auth"))
	require.Equal(t, "renewed", h.copyOf(".tool/auth"+oldSuffix))
	// A logout is none.
	require.NoError(t, os.Remove(filepath.Join(h.owner, ".tool/auth")))
	h.bring()
	require.Equal(t, "second login", h.copyOf(".tool/auth"))
}

// The agent logged in by itself before the owner ever did.
func TestAFirstLoginOfTheOwnersReachesTheAgent(t *testing.T) {
	h := newHomes(t, config.HomeFile{Path: "auth", Mode: config.HomeCredentials})
	h.bring()
	h.agent("auth", "its own")
	h.has("auth", "the owner's")
	h.bring()
	require.Equal(t, "the owner's", h.copyOf("auth"))
	require.Equal(t, "its own", h.copyOf("auth"+oldSuffix))
}

// Homes made before there was a record: whose change is the newer one is not known.
func TestCopiesWithoutARecordStay(t *testing.T) {
	h := newHomes(t, config.HomeFile{Path: "auth", Mode: config.HomeCredentials})
	h.agent("auth", "renewed")
	h.has("auth", "login")
	h.bring()
	require.Equal(t, "renewed", h.copyOf("auth"))
	h.has("auth", "new login")
	h.bring()
	require.Equal(t, "new login", h.copyOf("auth"))

	require.NoError(t, os.WriteFile(h.spec.Record, []byte("{ damaged"), 0o600))
	h.has("auth", "newer login")
	h.bring()
	require.Equal(t, "new login", h.copyOf("auth"))
	require.Contains(t, h.log.String(), "record of copied files not read")
}

// For all orders of changes: what the agent wrote is in its home, unless it has written since, and
// what the owner changed after a copy was left alone is in the copy.
func TestNoChangeOfTheAgentIsLost(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		mode := rapid.SampledFrom([]string{config.HomeCopy, config.HomeCredentials}).Draw(r, "mode")
		h := newHomes(t, config.HomeFile{Path: "f", Mode: mode})
		h.bring()
		agent, touched, changed := "", false, false
		for i := range rapid.IntRange(1, 8).Draw(r, "steps") {
			text := string(rune('a' + i))
			switch rapid.SampledFrom([]string{"owner", "agent", "start"}).Draw(r, "step") {
			case "owner":
				h.has("f", text)
				changed = true
			case "agent":
				h.agent("f", text)
				agent, touched = text, true
			case "start":
				h.bring()
				kept := []string{h.copyOf("f"), h.copyOf("f" + oldSuffix)}
				if touched {
					require.Contains(r, kept, agent)
				}
				if changed && (!touched || mode == config.HomeCredentials) {
					b, err := os.ReadFile(filepath.Join(h.owner, "f"))
					require.NoError(r, err)
					require.Equal(r, string(b), h.copyOf("f"))
					touched = touched && h.copyOf("f") == agent
				}
				changed = false
			}
		}
	})
}

func TestWhatIsNoFileOfTheAgentsIsNotRead(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte(`{"secret":1}`), 0o600))
	for name, put := range map[string]func(h *homes, p string) error{
		"a link out":              func(_ *homes, p string) error { return os.Symlink(outside, p) },
		"a link within":           func(h *homes, p string) error { h.agent("other", "{}"); return os.Symlink("other", p) },
		"a pipe, without a wait":  func(_ *homes, p string) error { return syscall.Mkfifo(p, 0o600) },
		"a directory":             func(_ *homes, p string) error { return os.Mkdir(p, 0o700) },
		"a file that is too long": func(_ *homes, p string) error { return os.WriteFile(p, make([]byte, maxFile+1), 0o600) },
		"another user's": func(h *homes, p string) error {
			h.spec.UID++
			return os.WriteFile(p, []byte(`{"secret":1}`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHomes(t, config.HomeFile{Path: "auth", Mode: config.HomeCredentials})
			h.spec.Answers = []config.Answer{{File: "auth", Format: config.AnswerJSON, At: []string{"trusted"}, Value: true}}
			h.has("auth", `{"login":1}`)
			require.NoError(t, put(h, filepath.Join(h.spec.Dir, "auth")))
			before, err := os.Lstat(filepath.Join(h.spec.Dir, "auth"))
			require.NoError(t, err)
			h.bring()
			after, err := os.Lstat(filepath.Join(h.spec.Dir, "auth"))
			require.NoError(t, err)
			require.True(t, os.SameFile(before, after))
			require.Contains(t, h.log.String(), "not refreshed")
			b, err := os.ReadFile(outside)
			require.NoError(t, err)
			require.Equal(t, `{"secret":1}`, string(b))
		})
	}
}

func TestAFileThatTheAgentWritesMeanwhileStays(t *testing.T) {
	h := newHomes(t)
	h.agent("f", "read")
	root, err := os.OpenRoot(h.spec.Dir)
	require.NoError(t, err)
	defer root.Close()
	c := copies{Spec: h.spec, root: root}
	mine, err := c.read("f")
	require.NoError(t, err)
	h.agent("f", "written meanwhile")
	require.ErrorContains(t, c.write("f", mine, []byte("new")), "the agent writes it")
	require.Equal(t, "written meanwhile", h.copyOf("f"))
	require.ErrorContains(t, c.write("f", own{}, []byte("new")), "the agent writes it")
	entries, err := os.ReadDir(h.spec.Dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
