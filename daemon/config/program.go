package config

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"polis/daemon/api/setting"
)

// searchPath is where programs of base types are looked for, after
// sandbox.path: the directories of a sandbox's PATH.
var searchPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// seen are the host's directories that a sandbox has at the same place.
var seen = []string{"/usr", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc"}

// find looks for the type's program and says what it found.
func (t *BaseType) find(box Sandbox) {
	if t.Program == "" {
		t.Available = true
		return
	}
	names := []string{t.Program}
	if !filepath.IsAbs(t.Program) {
		names = nil
		for _, dir := range append(box.Path[:len(box.Path):len(box.Path)], searchPath...) {
			names = append(names, filepath.Join(dir, t.Program))
		}
	}
	mounts := append(box.ExtraMounts[:len(box.ExtraMounts):len(box.ExtraMounts)], t.Mounts...)
	for _, name := range names {
		host, ok := onHost(name, mounts)
		if !ok || !isExec(host) {
			continue
		}
		real, err := filepath.EvalSymlinks(host)
		if err != nil || !inSandbox(real, mounts) {
			// Most often a link into a user's home.
			t.Reason = name + " leads to " + real + ", which a sandbox does not see"
			continue
		}
		t.Available, t.Reason, t.Path, t.Version = true, "", name, packageVersion(real)
		return
	}
	switch {
	case t.Reason != "":
	case filepath.IsAbs(t.Program):
		t.Reason = t.Program + " is not an executable file that a sandbox sees"
	default:
		t.Reason = t.Program + " is not in " + strings.Join(append(box.Path[:len(box.Path):len(box.Path)], searchPath...), ":")
	}
}

// within reports whether p is dir or below it.
func within(dir, p string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// onHost translates a sandbox's path to the host's.
func onHost(p string, mounts []setting.Mount) (string, bool) {
	for _, m := range mounts {
		if within(m.Dest, p) {
			return m.Source + strings.TrimPrefix(p, m.Dest), true
		}
	}
	for _, dir := range seen {
		if within(dir, p) {
			return p, true
		}
	}
	return "", false
}

// Has reports whether a sandbox has the host's files at a path, with further mounts of a base type.
func (b Sandbox) Has(path string, more []setting.Mount) bool {
	_, ok := onHost(path, slices.Concat(b.ExtraMounts, more))
	return ok
}

// inSandbox reports whether a sandbox has a file of the host.
func inSandbox(host string, mounts []setting.Mount) bool {
	for _, m := range mounts {
		if within(m.Source, host) {
			return true
		}
	}
	for _, dir := range seen {
		if within(dir, host) {
			return true
		}
	}
	return false
}

func isExec(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0
}

// maxManifest bounds a package.json that is read, in bytes.
const maxManifest = 1 << 20

// packageVersion is the version that the npm package of a program names, or ""
// if it is of none.
func packageVersion(program string) string {
	dir := filepath.Dir(program)
	for range 4 {
		if name, version := manifest(filepath.Join(dir, "package.json")); name != "" && len(version) < 64 {
			return version
		}
		if dir == "/" || filepath.Base(dir) == "node_modules" {
			break
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

// manifest reads name and version of a package.json; both are "" if it is none. A user that is not root can
// own the directory: a pipe there blocks nothing.
func manifest(path string) (name, version string) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", ""
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return "", ""
	}
	var p struct{ Name, Version string }
	if err := json.NewDecoder(io.LimitReader(f, maxManifest)).Decode(&p); err != nil {
		return "", ""
	}
	return p.Name, p.Version
}
