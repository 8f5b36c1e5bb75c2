package release

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bounds of docs/release.md, in bytes.
const (
	maxInstalled = 65_000_000
	maxPackage   = 25_000_000
)

// TestRelease makes two releases of one commit, in different directories and environments.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds everything twice")
	}
	first := checkout(t, filepath.Join(tempDir(t), "first"))
	key := filepath.Join(filepath.Dir(first), "key")
	shell(t, first, nil, "ssh-keygen -q -t ed25519 -N '' -C polis -f "+key)

	t.Run("a commit without the tag of its version is refused", func(t *testing.T) {
		require.Contains(t, refused(t, first), "HEAD has no tag v"+number(t, first))
	})
	version := number(t, first)
	shell(t, first, nil, "git tag v"+version)
	t.Run("a changed tree is refused", func(t *testing.T) {
		shell(t, first, nil, "echo changed >>README.md")
		require.Contains(t, refused(t, first), "the tree has changes")
		shell(t, first, nil, "git checkout -q README.md")
	})
	t.Run("a key that is missing is refused", func(t *testing.T) {
		require.Contains(t, refused(t, first, "RELEASE_KEY=/nonexistent"), "RELEASE_KEY cannot be read")
	})
	t.Run("without the vulnerability database there is no release", func(t *testing.T) {
		require.Contains(t, refused(t, first, "UNCHECKED="), "NOT CHECKED")
	})

	make1 := shell(t, first, []string{"RELEASE_KEY=" + key}, "scripts/release")
	require.Contains(t, make1, "NOT CHECKED", "what was not checked is printed")
	out := filepath.Join(first, "dist", version)
	deb := filepath.Join(out, "polis_"+version+"_"+runtime.GOARCH+".deb")
	t.Run("its files", func(t *testing.T) {
		require.Len(t, names(t, out), 6, "deb, rpm, sources, SBOM, SHA256SUMS and its signature: %v", names(t, out))
		shell(t, out, nil, "sha256sum --quiet --strict -c SHA256SUMS")
		shell(t, out, nil, "echo releases $(cat "+key+".pub) >"+key+".allowed && ssh-keygen -Y verify -f "+key+".allowed -I releases -n polis-release -s SHA256SUMS.sig <SHA256SUMS")
		var sbom struct{ BOMFormat string }
		b, err := os.ReadFile(filepath.Join(out, "polis-"+version+"-"+runtime.GOARCH+".cdx.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &sbom))
		require.Equal(t, "CycloneDX", sbom.BOMFormat)
		source := tempDir(t)
		shell(t, source, nil, "tar xzf "+out+"/polis-"+version+".tar.gz")
		require.Equal(t, version, strings.TrimSpace(shell(t, source, nil, "polis-"+version+"/scripts/version")), "the sources know their version without git")
	})
	t.Run("it is not made over", func(t *testing.T) {
		require.Contains(t, refused(t, first), "exists: remove it")
	})
	t.Run("its sizes", func(t *testing.T) { sizes(t, deb) })
	t.Run("its changes, in the form that Debian's tools read", func(t *testing.T) {
		changes := shell(t, unpack(t, deb), nil, "gzip -dc usr/share/doc/polis/changelog.Debian.gz")
		require.Regexp(t, `\Apolis \(`+regexp.QuoteMeta(version)+`\) unstable; urgency=medium\n\n  \* .*changelog\.gz\.\n\n -- polis developers <\S+@\S+>  Tue, 14 Nov 2023 22:13:20 \+0000\n\z`, changes)
	})
	t.Run("its programs", func(t *testing.T) {
		root := unpack(t, deb)
		goroot := strings.TrimSpace(shell(t, root, nil, "go env GOROOT"))
		require.Contains(t, shell(t, root, nil, "usr/sbin/polisd --version"), version)
		for _, p := range []string{"usr/sbin/polisd", "usr/bin/polisctl", "usr/lib/polis/polis-shim", "usr/lib/polis/polis-tools"} {
			b, err := os.ReadFile(filepath.Join(root, p))
			require.NoError(t, err)
			for _, path := range []string{filepath.Dir(first), goroot + "/src", "/pkg/mod/"} {
				require.False(t, bytes.Contains(b, []byte(path)), "%s has the path %s of the machine that built it", p, path)
			}
		}
	})

	second := checkout(t, filepath.Join(tempDir(t), "another directory", "with a longer name"))
	shell(t, second, nil, "git tag v"+version+" && find . -path ./.git -prune -o -exec touch -h -d 2001-02-03 {} +")
	shell(t, second, []string{"TZ=Asia/Tokyo", "LC_ALL=C.UTF-8", "GOFLAGS=-tags=unrelated", "CGO_CFLAGS=-O1"}, "umask 077; scripts/release")
	for _, name := range names(t, out) {
		if name == "SHA256SUMS.sig" {
			continue // the second is not signed
		}
		shell(t, second, nil, "cmp '"+filepath.Join(out, name)+"' 'dist/"+version+"/"+name+"'")
	}
}

// sizes compares the package with what docs/release.md promises.
func sizes(t *testing.T, deb string) {
	fi, err := os.Stat(deb)
	require.NoError(t, err)
	require.Less(t, fi.Size(), int64(maxPackage), "the package, although it is compressed little")
	kib, err := strconv.Atoi(strings.TrimSpace(shell(t, "/", nil, "dpkg-deb -f "+deb+" Installed-Size")))
	require.NoError(t, err)
	t.Logf("package %.1f MB (compressed little), installed %.1f MB", float64(fi.Size())/1e6, float64(kib)*1024/1e6)
	require.Less(t, kib*1024, maxInstalled, "installed: find what grew with go tool nm -size")
}

// checkout makes a repository with one commit, which has this tree's files.
func checkout(t *testing.T, dir string) string {
	require.NoError(t, os.MkdirAll(dir, 0o755))
	shell(t, "../..", nil, "tar c --exclude=./bin --exclude=./dist --exclude=./.git . | tar x -C '"+dir+"'")
	shell(t, dir, nil, "git init -q -b main && git add . && git -c user.name=x -c user.email=x@y.invalid commit -q -m release --date=@1700000000")
	return dir
}

func number(t *testing.T, dir string) string {
	version := strings.TrimSpace(shell(t, dir, nil, "scripts/version"))
	number, _, _ := strings.Cut(version, "~")
	return number
}

// command runs a line of shell as for a release of this architecture alone, without the network.
func command(t *testing.T, dir string, env []string, line string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "ARCHES="+runtime.GOARCH, "FAST=1", "UNCHECKED=1", "GOVULNDB=file:///nonexistent",
		"GIT_COMMITTER_DATE=@1700000000", "GIT_CONFIG_GLOBAL=/dev/null")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

func shell(t *testing.T, dir string, env []string, line string) string {
	t.Helper()
	out, err := command(t, dir, env, line).CombinedOutput()
	require.NoError(t, err, "%s: %s", line, out)
	return string(out)
}

// refused requires that the release fails and returns its output.
func refused(t *testing.T, dir string, env ...string) string {
	t.Helper()
	out, err := command(t, dir, env, "scripts/release").CombinedOutput()
	require.Error(t, err, "%s", out)
	return string(out)
}

func names(t *testing.T, dir string) []string {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func unpack(t *testing.T, deb string) string {
	root := tempDir(t)
	shell(t, "/", nil, "dpkg-deb -x "+deb+" "+root)
	return root
}

// tempDir is t.TempDir with a short name and without a name of polis, which scripts/leakcheck would report.
func tempDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "release-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}
