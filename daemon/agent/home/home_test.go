package home

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/setting"
	"polis/daemon/config"
)

// homes are the homes of an owner and of an agent.
type homes struct {
	t      *testing.T
	owner  string
	spec   Spec
	mounts []setting.Mount
	log    bytes.Buffer
}

func newHomes(t *testing.T, files ...config.HomeFile) *homes {
	dir := t.TempDir()
	h := &homes{t: t, owner: filepath.Join(dir, "owner")}
	h.spec = Spec{Agent: "ann", Files: files, Owner: os.Getuid(), Dir: filepath.Join(dir, "agent"), Inside: "/home/user", Project: "/srv/my project", Record: filepath.Join(dir, "agent.copied"), ReadOnly: filepath.Join(dir, "run", "home"),
		UID: os.Getuid(), GID: os.Getgid(), Log: slog.New(slog.NewTextHandler(&h.log, nil))}
	for _, d := range []string{h.owner, h.spec.Dir, filepath.Dir(h.spec.ReadOnly)} {
		require.NoError(t, os.Mkdir(d, 0o700))
	}
	return h
}

func (h *homes) has(rel, text string) {
	h.t.Helper()
	p := filepath.Join(h.owner, rel)
	require.NoError(h.t, os.MkdirAll(filepath.Dir(p), 0o755))
	require.NoError(h.t, os.WriteFile(p, []byte(text), 0o644))
}

func (h *homes) bring() {
	h.t.Helper()
	var err error
	h.mounts, err = h.spec.bring(h.owner)
	require.NoError(h.t, err)
	require.NoError(h.t, h.spec.refreshCopies(h.owner, false))
}

func (h *homes) copyOf(rel string) string {
	b, err := os.ReadFile(filepath.Join(h.spec.Dir, rel))
	if err != nil {
		return "none"
	}
	return string(b)
}

func TestHomeFilesAreCopiedAndPrivate(t *testing.T) {
	h := newHomes(t, config.HomeFile{Path: ".tool/sub/auth.json", Mode: config.HomeCopy}, config.HomeFile{Path: ".missing", Mode: config.HomeCopy})
	h.has(".tool/sub/auth.json", "secret")
	require.NoError(t, os.Chmod(filepath.Join(h.owner, ".tool/sub/auth.json"), 0o777))
	h.bring()
	require.Equal(t, "secret", h.copyOf(".tool/sub/auth.json"))
	require.Equal(t, "none", h.copyOf(".missing"))
	for p, mode := range map[string]os.FileMode{".tool": 0o700, ".tool/sub": 0o700, ".tool/sub/auth.json": 0o600} {
		fi, err := os.Stat(filepath.Join(h.spec.Dir, p))
		require.NoError(t, err)
		require.Equal(t, mode, fi.Mode().Perm(), p)
	}
	// What the agent made of it stays; the owner's stays the owner's.
	require.NoError(t, os.WriteFile(filepath.Join(h.spec.Dir, ".tool/sub/auth.json"), []byte("renewed"), 0o600))
	h.has(".tool/sub/auth.json", "newer")
	h.bring()
	require.Equal(t, "renewed", h.copyOf(".tool/sub/auth.json"))
	require.Empty(t, h.log.String())
	// The place of a file that was read-only before does not count.
	require.NoError(t, os.Truncate(filepath.Join(h.spec.Dir, ".tool/sub/auth.json"), 0))
	h.bring()
	require.Equal(t, "newer", h.copyOf(".tool/sub/auth.json"))
}

func TestReadOnlyHomeFilesAreAsTheOwnerHasThemAtEachStart(t *testing.T) {
	h := newHomes(t, config.HomeFile{Path: ".tool/auth.json", Mode: config.HomeReadOnly}, config.HomeFile{Path: ".none", Mode: config.HomeReadOnly})
	for _, text := range []string{"first", "second"} {
		h.has(".tool/auth.json", text)
		h.bring()
		require.Equal(t, []setting.Mount{{Source: filepath.Join(h.spec.ReadOnly, "0"), Dest: "/home/user/.tool/auth.json", ReadOnly: true}}, h.mounts)
		b, err := os.ReadFile(h.mounts[0].Source)
		require.NoError(t, err)
		require.Equal(t, text, string(b))
		fi, err := os.Stat(h.mounts[0].Source)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o400), fi.Mode().Perm())
		fi, err = os.Stat(filepath.Dir(h.mounts[0].Source))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), fi.Mode().Perm())
	}
	require.Equal(t, "none", h.copyOf(".tool/auth.json"))
}

func TestNothingOutsideOfTheOwnersHomeIsBrought(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte("outside"), 0o644))
	for name, c := range map[string]struct {
		make func(h *homes, p string) error
		want string // the copy
		says string // in the log
	}{
		"a link out":          {func(_ *homes, p string) error { return os.Symlink(outside, p) }, "none", "leads out of"},
		"a relative link out": {func(_ *homes, p string) error { return os.Symlink("../../../../../../../.."+outside, p) }, "none", "leads out of"},
		"a link within the home": {func(h *homes, p string) error {
			h.has("dotfiles/auth", "within")
			return os.Symlink("../dotfiles/auth", p)
		}, "within", ""},
		"a magic link":           {func(_ *homes, p string) error { return os.Symlink("/proc/self/environ", p) }, "none", "leads out of"},
		"a dangling link":        {func(_ *homes, p string) error { return os.Symlink("nothing", p) }, "none", ""},
		"a loop":                 {func(_ *homes, p string) error { return os.Symlink("auth", p) }, "none", "too many levels"},
		"a directory":            {func(_ *homes, p string) error { return os.Mkdir(p, 0o755) }, "none", "not a regular file"},
		"a pipe, without a wait": {func(_ *homes, p string) error { return syscall.Mkfifo(p, 0o644) }, "none", "not a regular file"},
		"a file of another user": {func(h *homes, p string) error {
			h.spec.Owner = os.Getuid() + 1
			return os.WriteFile(p, []byte("x"), 0o644)
		}, "none", "belongs to user"},
		"a file that is too large": {func(_ *homes, p string) error { return os.WriteFile(p, make([]byte, maxFile+1), 0o600) }, "none", "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHomes(t, config.HomeFile{Path: ".tool/auth", Mode: config.HomeCopy})
			require.NoError(t, os.Mkdir(filepath.Join(h.owner, ".tool"), 0o755))
			require.NoError(t, c.make(h, filepath.Join(h.owner, ".tool/auth")))
			h.bring()
			require.Equal(t, c.want, h.copyOf(".tool/auth"))
			if c.says == "" {
				require.Empty(t, h.log.String())
			} else {
				require.Contains(t, h.log.String(), c.says)
			}
		})
	}
}

// What an agent left in its home must not make the daemon write elsewhere.
func TestLinksInTheAgentsHomeLeadNowhere(t *testing.T) {
	h := newHomes(t, config.HomeFile{Path: ".tool/auth", Mode: config.HomeCopy})
	h.has(".tool/auth", "secret")
	outside := t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(h.spec.Dir, ".tool")))
	h.bring()
	require.Contains(t, h.log.String(), "not refreshed")
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.False(t, strings.Contains(h.log.String(), "secret"))
}
