package gate

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/config"
)

// program skips, except in CI, when a program is missing.
func program(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v: run scripts/setup test", err)
		}
		t.Skip(err)
	}
}

// TestProgramsActOnProtectedFiles: each file makes a real program run something in a step that a person takes for
// another reason, and the default protects it. A script has M for the mark, which nothing else makes.
func TestProgramsActOnProtectedFiles(t *testing.T) {
	const (
		module = `require("fs").writeFileSync("M", ""); module.exports = {}`
		mark   = "#!/bin/sh\ntouch \"$ROOT/M\"\n"
		commit = "git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m x"
	)
	for name, c := range map[string]struct {
		program string
		files   map[string]string // those with a protected path come from the agent
		before  string            // what is set up once by the people of the project
		step    string
		in      string // the directory of the step
		deeper  bool   // the files can be in a directory, which is opened as a project
	}{
		"git attributes":    {"git", map[string]string{".gitattributes": "* filter=f"}, "git init -q; git config filter.f.clean 'touch M; cat'; touch a", "git add a", "", false},
		"git configuration": {"git", map[string]string{".gitconfig": "[core]\nfsmonitor = touch M; false\n"}, "git init -q; git config include.path ../.gitconfig", "git status", "", false},
		"git hooks":         {"git", map[string]string{".githooks/pre-commit": mark}, "git init -q; git config core.hooksPath .githooks", commit, "", false},
		"a repository inside": {"git", map[string]string{"sub/HEAD": "ref: refs/heads/x\n", "sub/objects/k": "", "sub/refs/k": "",
			"sub/config": "[core]\nrepositoryformatversion = 0\nworktree = ..\nfsmonitor = touch $ROOT/M; false\n"}, "git init -q", "git status", "sub", false},
		"hooks of one inside": {"git", map[string]string{"x.git/config": "[core]\nrepositoryformatversion = 0\nworktree = ..\nfsmonitor = touch $ROOT/M; false\n"},
			"git init -q; git init -q --bare x.git", "git status", "x.git", false},
		"husky":             {"husky", map[string]string{".husky/pre-commit": "touch M"}, "git init -q; husky", commit, "", false},
		"Lefthook":          {"lefthook", map[string]string{"lefthook.toml": "[post-commit.commands.x]\nrun = \"touch M\"\n"}, "git init -q; echo > lefthook-local.yml; lefthook install -f; rm lefthook-local.yml", "touch a; git add a; " + commit, "", false},
		"direnv":            {"direnv", map[string]string{".envrc": "touch M"}, "direnv allow .", "direnv exec . true", "", true},
		"Vim":               {"vim", map[string]string{".exrc": "silent !touch M\n"}, "echo set exrc > $HOME/.vimrc", "vim -T dumb -c qa! < /dev/null", "", true},
		"Emacs":             {"emacs", map[string]string{".dir-locals.el": `((nil . ((eval . (write-region "" nil "M")))))`}, "touch f.txt", "emacs --batch --eval '(setq enable-local-eval t enable-local-variables :all)' f.txt", "", false},
		"npm, a module":     {"npm", map[string]string{".npmrc": "init-module=./x.js\n", "x.js": module}, "", "npm init -y", "", true},
		"npm, a shell":      {"npm", map[string]string{".npmrc": "script-shell=./x\n", "x": mark}, "chmod +x x", "npm exec -c true", "", false},
		"pnpm":              {"pnpm", map[string]string{".pnpmfile.cjs": module}, "echo '{\"name\":\"a\"}' > package.json", "pnpm install --offline --ignore-scripts", "", false},
		"pnpm, a workspace": {"pnpm", map[string]string{"pnpm-workspace.yaml": "pnpmfile: ./x.cjs\n", "x.cjs": module}, "echo '{\"name\":\"a\"}' > package.json", "pnpm install --offline --ignore-scripts", "", false},
		"Yarn 1":            {"yarn", map[string]string{".yarnrc": "yarn-path \"./x.js\"\n", "x.js": module}, "", "yarn --version", "", false},
		"Yarn":              {"yarn", map[string]string{".yarnrc.yml": "yarnPath: ./x.js\n", "x.js": module}, "", "yarn --version", "", true},
		"Yarn, its release": {"yarn", map[string]string{".yarn/releases/yarn.cjs": module}, "echo 'yarnPath: .yarn/releases/yarn.cjs' > .yarnrc.yml", "yarn --version", "", false},
		"pdb":               {"python3", map[string]string{".pdbrc": "import os; os.system('touch M')\n"}, "echo pass > a.py", "echo q | python3 -m pdb a.py", "", false},
		"perl's debugger":   {"perl", map[string]string{".perldb": "system('touch M');"}, "", "echo q | perl -d -e 1", "", false},
	} {
		for _, dir := range []string{"", "sub/project"} {
			if dir != "" && !c.deeper {
				continue
			}
			t.Run(filepath.Join(name, dir), func(t *testing.T) {
				program(t, c.program)
				root, home := filepath.Join(t.TempDir(), dir), t.TempDir()
				protect, err := CompileProtected(config.DefaultProtected())
				require.NoError(t, err)
				rules, need := Rules{Protected: protect}, 0
				write := func() {
					for file, text := range c.files {
						file = filepath.Join(root, file)
						require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
						require.NoError(t, os.WriteFile(file, []byte(os.Expand(text, func(v string) string {
							return map[string]string{"ROOT": root}[v]
						})), 0o755))
					}
				}
				for file := range c.files {
					need += len(rules.Judge([]Change{{Path: filepath.Join(dir, file), Old: ModeNone, New: "100644"}}).Protected)
				}
				require.NoError(t, os.MkdirAll(root, 0o755))
				write()
				sh(t, root, home, c.before)
				write()
				require.NoFileExists(t, filepath.Join(root, "M"), "before the step")
				sh(t, filepath.Join(root, c.in), home, c.step)
				require.FileExists(t, filepath.Join(root, "M"), "the program has acted")
				require.NotZero(t, need, "none of %v needs a person", c.files)
			})
		}
	}
}

// sh runs a script. Programs may fail: what counts is the mark.
func sh(t *testing.T, dir, home, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/sh", "-c", script)
	c.Dir, c.WaitDelay = dir, time.Second
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "NO_UPDATE_NOTIFIER=1", "npm_config_offline=true"}
	out, err := c.CombinedOutput()
	t.Logf("%s: %v\n%s", script, err, out)
	require.NoError(t, ctx.Err())
}
