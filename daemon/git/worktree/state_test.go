package worktree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/store"
	"polis/internal/need"
	"polis/internal/pinned"
)

const (
	ann = 4321
	bob = 4322
)

// neighbours have a workspace with a project each, in their own directories; bob's is private.
func neighbours(t *testing.T) (dir string) {
	need.Root(t)
	dir = t.TempDir()
	for p := dir; len(p) > len(os.TempDir()); p = filepath.Dir(p) {
		require.NoError(t, os.Chmod(p, 0o755))
	}
	for who, uid := range map[string]int{"ann": ann, "bob": bob, "root": 0} {
		for path, of := range map[string]int{"": uid, "project": uid, "ws": 0, "ws/.polis": 0, "ws/.polis/worktrees": 0, "ws/.polis/worktrees/alice": uid, "ws/.polis/bare-repo.git": uid} {
			p := filepath.Join(dir, who, path)
			require.NoError(t, os.MkdirAll(p, 0o755))
			require.NoError(t, os.Lchown(p, of, of))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, who, "ws/.polis/worktrees/alice/who"), []byte(who), 0o644))
		r, err := pinned.Take(filepath.Join(dir, who, "project"))
		require.NoError(t, err)
		require.NoError(t, store.WriteSummed(filepath.Join(dir, who, "ws/.polis/project.json"), r))
	}
	require.NoError(t, os.Chmod(filepath.Join(dir, "bob"), 0o700))
	return dir
}

func annsWorkspace(dir string) *Workspace {
	return Open(Config{Workspace: filepath.Join(dir, "ann/ws"), UID: ann, GID: ann})
}

// put replaces ann's workspace by what made makes at its path.
func put(t *testing.T, dir string, made func(path string) error) {
	at := filepath.Join(dir, "ann/ws")
	require.NoError(t, os.Rename(at, at+".away"))
	require.NoError(t, made(at))
	require.NoError(t, os.Lchown(at, ann, ann))
}

// TestARecordOfAnotherOwnerIsNotRead: a user who owns a directory above a workspace can put another one there, whose record
// names another user, whom agents would run as.
func TestARecordOfAnotherOwnerIsNotRead(t *testing.T) {
	dir := neighbours(t)
	r, err := annsWorkspace(dir).ReadRecord()
	require.NoError(t, err)
	require.Equal(t, uint32(ann), r.UID)
	for name, made := range map[string]func(dir, at string) error{
		"a link to bob's":  func(dir, at string) error { return os.Symlink(filepath.Join(dir, "bob/ws"), at) },
		"a link to root's": func(dir, at string) error { return os.Symlink(filepath.Join(dir, "root/ws"), at) },
		"bob's workspace":  func(dir, at string) error { return os.Rename(filepath.Join(dir, "bob/ws"), at) },
		"root's workspace": func(dir, at string) error { return os.Rename(filepath.Join(dir, "root/ws"), at) },
		"a .polis of ann's": func(dir, at string) error {
			if err := os.CopyFS(at, os.DirFS(filepath.Join(dir, "bob/ws"))); err != nil {
				return err
			}
			return os.Lchown(filepath.Join(at, ".polis"), ann, ann)
		},
		"a .polis that ann can change": func(dir, at string) error {
			if err := os.CopyFS(at, os.DirFS(filepath.Join(dir, "bob/ws"))); err != nil {
				return err
			}
			return os.Chmod(filepath.Join(at, ".polis"), 0o777)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := neighbours(t)
			put(t, dir, func(at string) error { return made(dir, at) })
			w := annsWorkspace(dir)
			_, err := w.ReadRecord()
			require.Equal(t, api.CodeWorkspaceInvalid, api.CodeOf(err), "%v", err)
			require.NotEmpty(t, api.AsError(err).Hint)
		})
	}
}

// TestAWorkspaceIsNotMadeInADirectoryOfAnother: root's project, or bob's, in a directory of ann's.
func TestAWorkspaceIsNotMadeInADirectoryOfAnother(t *testing.T) {
	dir := neighbours(t)
	w := annsWorkspace(dir)
	require.NoError(t, w.placedFor(pinned.Record{UID: ann}))
	for _, uid := range []uint32{0, bob} {
		require.Equal(t, api.CodeWorkspaceInvalid, api.CodeOf(w.placedFor(pinned.Record{UID: uid})))
	}
}

// TestFilesBelowAViewAreTheWorkspaces: ann exchanges the workspace for a link to bob's while the files of a worktree are
// opened as root.
func TestFilesBelowAViewAreTheWorkspaces(t *testing.T) {
	dir := neighbours(t)
	w := annsWorkspace(dir)
	read := func() (string, error) {
		f, err := w.uncoveredDir("alice")
		if err != nil {
			return "", err
		}
		defer f.Close()
		root, err := w.openRoot(w.tree("alice"))
		if err != nil {
			return "", err
		}
		defer root.Close()
		b, err := root.ReadFile("who")
		require.NoError(t, err)
		at, err := unix.Openat(int(f.Fd()), "who", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(at)
		text := make([]byte, 16)
		n, err := unix.Read(at, text)
		require.NoError(t, err)
		require.Equal(t, string(b), string(text[:n]))
		return string(b), nil
	}
	text, err := read()
	require.NoError(t, err)
	require.Equal(t, "ann", text)
	ws, link := filepath.Join(dir, "ann/ws"), filepath.Join(dir, "ann/link")
	require.NoError(t, os.Symlink(filepath.Join(dir, "bob/ws"), link))
	require.NoError(t, os.Lchown(link, ann, ann))
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, ws, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
	}()
	refused := 0
	for range 5000 {
		text, err := read()
		if err != nil {
			require.Equal(t, api.CodeWorkspaceInvalid, api.CodeOf(err), "%v", err)
			refused++
			continue
		}
		require.Equal(t, "ann", text)
	}
	close(done)
	<-stopped
	require.Positive(t, refused)
}

// A bare repository of root's is cloned as the user whom the agents run as, and that is the project.
func TestABareRepositoryOfRootsIsCloned(t *testing.T) {
	needRoot(t)
	bare := filepath.Join(tempDir(t), "bare.git")
	as(t, 0, "/", "clone", "-q", "--bare", project(t), bare)
	s, root := spec(t, bare), uint32(0)
	s.Owner = &root
	info, err := Up(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, uint32(nobody), info.Record.UID)
	_, err = Up(t.Context(), s)
	require.NoError(t, err, "and again")
	// The project of another user is none.
	s = spec(t, project(t))
	s.Owner = new(uint32)
	*s.Owner = nobody
	_, err = Up(t.Context(), s)
	require.ErrorContains(t, err, "belongs to uid 0, and the workspace to uid 65534")
}
