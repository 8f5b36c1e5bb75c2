package gate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/config"
)

func TestProtectedPathsOfAnySpelling(t *testing.T) {
	p := protected(t, ".envrc", "mise.toml", ".vscode", "*.code-workspace", "**/.yarn/releases", ".github/workflows", "[A-Z]x", "Docs/KEEP", "*.md", "!README.md", "**/bin/hermit*")
	for _, path := range []string{
		".envrc", "a/b/.envrc", ".ENVRC", ".Envrc/x", "MISE.toml", ".vscode/tasks.json", "sub/.VSCode/x", "A.Code-Workspace", ".GitHub/Workflows/ci.yml", ".github/workflows",
		".vſcode/tasks.json", ".vs\u200bcode/x", "mi\u00adse.toml", ".envrc.", ".envrc ", ".envrc. .", ".envrc::$DATA", ".vscode./tasks.json", "Ax", "ax", "docs/keep", "doc\u017f/\u212aeep", "readme.md", "x.MD",
		"a/.yarn/releases/yarn.cjs", ".YARN/Releases", "a/bin/hermit.hcl",
	} {
		_, ok := p.Covers(path)
		require.True(t, ok, "%q", path)
	}
	for _, path := range []string{"", "envrc", ".envrcs", "mise_toml", "vscode", ".yarn/cache/x", ".github/x", "a/.github/workflows/x", "README.md", "a:b", "...", "bin/hermi"} {
		_, ok := p.Covers(path)
		require.False(t, ok, "%q", path)
	}
	got, _ := p.Covers("A/.ENVRC")
	require.Equal(t, ".envrc", got, "the pattern as it was written")
	for path, want := range map[string]bool{".github": true, ".GITHUB": true, ".yarn": true, "a/b/.Yarn": true, "bin": true, "a": false, "a/.github": false, ".yarn/cache": false} {
		_, ok := p.below(path)
		require.Equal(t, want, ok, path)
	}
}

func TestARepositoryWithinTheRepositoryNeedsAPerson(t *testing.T) {
	for path, want := range map[string]bool{"HEAD": true, "a/b.git/HEAD": true, "a/Head": true, "a/HEAD.": true, "components/Head/index.js": false, "HEAD.md": false, "ahead": false} {
		v := Rules{}.Judge([]Change{{Path: path, Old: ModeNone, New: "100644"}})
		require.Equal(t, want, len(v.Protected) == 1, path)
		require.Empty(t, Rules{}.Judge([]Change{{Path: path, Old: "100644", New: ModeNone}}).Protected, "%s is removed", path)
	}
}

func TestTheReasonIsInTheVerdict(t *testing.T) {
	r := Rules{Protected: protected(t, ".envrc", "x"), Reasons: map[string]string{".envrc": "direnv runs it"}}
	v := r.Judge([]Change{{Path: ".ENVRC", New: "100644"}, {Path: "x", New: "100644"}})
	require.Equal(t, []Finding{{".ENVRC", `protected ".envrc": direnv runs it`}, {"x", `protected "x"`}}, v.Protected)
}

// Feature: multi-agent-workspaces, Property: folding names only adds protected paths
func TestFoldingNeverOpensAPath(t *testing.T) {
	glob := rapid.SampledFrom([]string{"a", "A", "*.go", "!a", "!A/b", "b/", "**/a/b", "/a", "[A-C]", "[^a]", "!*.GO", "a/**/b", "**", "ſ", "a?", `\A`})
	name := rapid.SampledFrom([]string{"a", "A", "b", "B", "x.go", "X.GO", "ſ", "s", "a ", "b.", "é", "e\u0301", "c"})
	rapid.Check(t, func(t *rapid.T) {
		globs := rapid.SliceOfN(glob, 0, 5).Draw(t, "globs")
		path := strings.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "path"), "/")
		exact, folds := patterns(t, globs...), protected(t, globs...)
		if _, ok := exact.Covers(path); ok {
			_, ok := folds.Covers(path)
			require.True(t, ok, "%q %q", globs, path)
		}
		if _, ok := exact.Covers(strings.ToLower(path)); ok && !strings.Contains(strings.Join(globs, ""), "!") {
			_, ok := folds.Covers(path)
			require.True(t, ok, "%q %q", globs, path)
		}
	})
}

func TestTheDefaultProtectsWhatRunsByItself(t *testing.T) {
	p := protected(t, config.DefaultProtected()...)
	for _, path := range []string{
		"mise.toml", "opencode.json", ".codex/config.toml", ".gemini/settings.json", ".cursor/mcp.json", ".claude/settings.json", ".claude/settings.local.json", "web/.claude/settings.json", "web/.mcp.json",
		"web/.vscode/tasks.json", ".yarnrc.yml", ".npmrc", ".pnpmfile.cjs", "conductor.json", ".idea/workspace.xml", ".exrc", ".nvim.lua", "Jenkinsfile", "ci/jenkinsfile", ".drone.yml", "azure-pipelines.yml",
		".husky/pre-commit", "lefthook.yml", ".config/lefthook.jsonc", ".pre-commit-config.yaml", ".config/mise/conf.d/x.toml", "mise.local.toml", ".env", "bin/hermit", "crates/a/.cargo/config.toml",
		".opencode/plugins/x.ts", ".github/hooks/x.json", ".devcontainer/devcontainer.json", "a/.devcontainer.json", "x.git/hooks/post-checkout", "a.code-workspace", ".yarn/plugins/x.cjs", ".Rprofile",
	} {
		_, ok := p.Covers(path)
		require.True(t, ok, path)
	}
	for _, path := range []string{"Makefile", "package.json", "build.gradle", "Dockerfile", "compose.yaml", "AGENTS.md", "CLAUDE.md", ".cursorrules", ".nvmrc", ".python-version", "go.mod", ".gitignore", ".editorconfig",
		".github/ISSUE_TEMPLATE/bug.yml", ".github/CODEOWNERS", ".gitlab/issue_templates/x.md", ".yarn/cache/x.zip", ".env.example", "src/mise/lib.rs", "drone.yml", "bin/run", "eslint.config.js", "config/environment.rb", "README.md"} {
		got, ok := p.Covers(path)
		require.False(t, ok, "%s: %s", path, got)
	}
	for _, link := range []string{".github", ".GitHub", ".yarn", "web/.yarn", ".cargo", "bin", "x.git"} {
		v := Rules{Protected: p}.Judge([]Change{{Path: link, Old: ModeNone, New: ModeLink, Target: "elsewhere"}})
		require.Len(t, v.Protected, 1, link)
	}
}
