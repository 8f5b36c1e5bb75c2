package shim

import (
	_ "embed"
	"os"
	"path/filepath"

	"polis/fusefs/shared"
)

// npmWrapper is what an agent runs as npm; see the file.
//
//go:embed bin/npm
var npmWrapper string

// binDir is the directory in the sandbox whose programs take precedence over the host's.
const binDir = "/run/polis/bin"

// openBin installs the programs of binDir.
func (s *Shim) openBin() error {
	if storeName(s.Spec) == "" {
		return nil
	}
	dir := filepath.Join(s.insideDir(), "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dir, "npm")
	if err := os.WriteFile(name, []byte(npmWrapper), 0o755); err != nil {
		return err
	}
	return os.Chmod(name, 0o755) // independent of the umask
}

// storeEnv returns the variable with the path of the package store, for the programs of binDir and
// for pnpm itself. A pnpm before version 11 that is called directly ignores it and has a store of
// its own in the home directory.
func (s *Shim) storeEnv() []string {
	if storeName(s.Spec) == "" {
		return nil
	}
	dir := filepath.Join(s.Spec.ProjectPath, shared.StoreName)
	return []string{"POLIS_STORE=" + dir, "pnpm_config_store_dir=" + dir}
}
