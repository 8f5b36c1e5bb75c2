package shim

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// npmRun runs the wrapper in a package with programs that only print what they
// were called with, and returns what was called.
func npmRun(t testing.TB, files map[string]string, programs []string, args ...string) (calls []string, stderr string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "npm")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	put := func(name, text string, mode os.FileMode) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	put("first/npm", npmWrapper, 0o755)
	for _, p := range programs {
		text := "#!/bin/sh\n[ \"$1\" != import ] || : > pnpm-lock.yaml\necho \"$(basename \"$0\") $*\" >> " + dir + "/calls\n"
		if p == "broken-pnpm" {
			p, text = "pnpm", text+"exit 1\n"
		}
		put("bin/"+p, text, 0o755)
	}
	for name, text := range files {
		put("work/"+name, text, 0o644)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "work", ".git"), 0o755))
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "first", "npm"), args...)
	cmd.Dir = filepath.Join(dir, "work")
	cmd.Env = []string{"PATH=" + dir + "/first:" + dir + "/bin:/usr/bin:/bin", "POLIS_STORE=/store"}
	var errs strings.Builder
	cmd.Stderr = &errs
	require.NoError(t, cmd.Run(), errs.String())
	b, err := os.ReadFile(filepath.Join(dir, "calls"))
	require.NoError(t, err)
	if _, mine := files["pnpm-lock.yaml"]; !mine {
		_, err = os.Stat(filepath.Join(dir, "work", "pnpm-lock.yaml"))
		require.ErrorIs(t, err, os.ErrNotExist, "pnpm's lock file is left")
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n"), errs.String()
}

var (
	both    = []string{"npm", "pnpm"}
	npmOnly = map[string]string{"package.json": "{}", "package-lock.json": "{}"}
	pnpms   = map[string]string{"package.json": "{}", "pnpm-lock.yaml": ""}
)

const (
	lockOnly = " --package-lock-only --ignore-scripts --no-audit --no-fund"
	frozen   = "pnpm install --frozen-lockfile"
)

func TestNpmWrapper(t *testing.T) {
	for name, c := range map[string]struct {
		files    map[string]string
		programs []string
		args     string
		want     []string
		note     string
	}{
		"install":                  {npmOnly, both, "install", []string{"npm install" + lockOnly, "pnpm import", frozen}, ""},
		"its short name":           {npmOnly, both, "i --no-audit", []string{"npm i --no-audit" + lockOnly, "pnpm import", frozen}, ""},
		"offline for both":         {npmOnly, both, "install --offline", []string{"npm install --offline" + lockOnly, "pnpm import --offline", frozen + " --offline"}, ""},
		"add":                      {npmOnly, both, "install -D left@1", []string{"npm install -D left@1" + lockOnly, "pnpm import", frozen}, ""},
		"uninstall":                {npmOnly, both, "rm left", []string{"npm rm left" + lockOnly, "pnpm import", frozen}, ""},
		"ci":                       {npmOnly, both, "ci", []string{"pnpm import", frozen}, ""},
		"ci without a lock file":   {map[string]string{"package.json": "{}"}, both, "ci", []string{"npm ci"}, ""},
		"another verb":             {npmOnly, both, "run install", []string{"npm run install"}, ""},
		"nothing":                  {npmOnly, both, "--version", []string{"npm --version"}, ""},
		"global":                   {npmOnly, both, "install -g left", []string{"npm install -g left"}, "pnpm has no -g"},
		"no pnpm":                  {npmOnly, []string{"npm"}, "install", []string{"npm install"}, "pnpm is not installed"},
		"no package":               {map[string]string{"x": ""}, both, "install left", []string{"npm install left"}, "no package.json"},
		"workspaces":               {map[string]string{"package.json": `{"workspaces":[]}`}, both, "install", []string{"npm install"}, "workspaces"},
		"a directory":              {map[string]string{"package.json": "{}", "package-lock.json": `"link": true`}, both, "install", []string{"npm install" + lockOnly, "npm install"}, "is a directory"},
		"pnpm fails":               {npmOnly, []string{"npm", "broken-pnpm"}, "ci", []string{"pnpm import", "npm ci"}, "cannot install"},
		"pnpm's project":           {pnpms, both, "install", []string{"pnpm install"}, ""},
		"pnpm's project, add":      {pnpms, both, "install --save-dev left", []string{"pnpm add --save-dev left"}, ""},
		"pnpm's project, ci":       {pnpms, both, "ci --offline", []string{"pnpm install --frozen-lockfile --offline"}, ""},
		"pnpm's project, remove":   {pnpms, both, "un left", []string{"pnpm remove left"}, ""},
		"pnpm's project, odd name": {pnpms, both, "i install", []string{"pnpm add install"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			calls, stderr := npmRun(t, c.files, c.programs, strings.Fields(c.args)...)
			require.Equal(t, c.want, calls)
			if c.note == "" {
				require.Empty(t, stderr)
			} else {
				require.Contains(t, stderr, c.note)
			}
		})
	}
}

// Feature: multi-agent-workspaces, Property 17: npm to pnpm Interception
func TestEveryNpmInstallIsPnpms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		verb := rapid.SampledFrom([]string{"i", "in", "ins", "inst", "install", "isntall", "add"}).Draw(rt, "verb")
		flags := rapid.SliceOfN(rapid.SampledFrom([]string{"-D", "--save-dev", "-E", "--save-exact", "--no-audit", "--prefer-offline"}), 0, 2).Draw(rt, "flags")
		names := rapid.SliceOfN(rapid.StringMatching(`(@[a-z]{1,5}/)?[a-z]{2,8}(@[0-9]\.[0-9])?`), 0, 3).Draw(rt, "names")
		files := rapid.SampledFrom([]map[string]string{npmOnly, pnpms, {"package.json": "{}"}}).Draw(rt, "files")
		args := append(append([]string{}, flags...), append([]string{verb}, names...)...)
		calls, stderr := npmRun(t, files, both, args...)
		require.Empty(rt, stderr)
		last := calls[len(calls)-1]
		require.True(rt, strings.HasPrefix(last, "pnpm ") && (strings.Contains(last, "install") || strings.Contains(last, "add")), "%q: %q", args, calls)
		require.NotContains(rt, calls, "npm "+strings.Join(args, " "), "npm itself installed")
	})
}
