package config

// ProtectedTrigger is something that a person or a machine does for another reason, and the files that make a
// program run something then.
type ProtectedTrigger struct {
	// When completes "Files that are acted on when ...".
	When  string
	Files []ProtectedFile
}

// ProtectedFile is one row of the default of merge.protected.
type ProtectedFile struct {
	// Patterns are those of gitignore(5). One without a slash holds in every directory: a part of a repository
	// can be opened as a project of its own.
	Patterns []string
	// Program reads the files; Effect completes the sentence.
	Program, Effect string
}

func file(program, effect string, patterns ...string) ProtectedFile {
	return ProtectedFile{Patterns: patterns, Program: program, Effect: effect}
}

// ProtectedFiles returns the default of merge.protected: the files that make a program run something, or change what it
// runs, although nobody started it for that.
//
// The line is drawn there. What a person starts by name (a build, a test, a script, a container) is reviewed
// before it is started; so are the configurations of compilers, linters and test runners, and text
// that models read. A whole directory is listed if its program also loads code or settings from names that are not known
// here.
func ProtectedFiles() []ProtectedTrigger {
	return []ProtectedTrigger{
		{"polis or git works in the checkout", gitFiles()},
		{"a shell enters the directory", shellFiles()},
		{"an editor opens the directory, or a file in it", editorFiles()},
		{"an agent's program or a manager of agents starts", agentFiles()},
		{"any command of a package manager runs, even one that builds nothing", packageFiles()},
		{"a program starts in the directory that has nothing to do with the project", startFiles()},
		{"a forge or a CI server gets a commit", forgeFiles()},
	}
}

func gitFiles() []ProtectedFile {
	return []ProtectedFile{
		file("polis", "shows ignored files of your checkout to agents", ".worktreeinclude"),
		file("git", "selects the filters, diff and merge drivers that it runs", ".gitattributes"),
		file("git", "fetches other repositories with your credentials", ".gitmodules"),
		file("git-lfs", "contacts the server that it names", ".lfsconfig"),
		file("git", "runs its commands, where your configuration includes it", ".gitconfig"),
		file("git", "runs the commands of a repository within the repository", "**/*.git/config", "**/*.git/config.worktree", "**/*.git/hooks"),
		file("git", "runs hooks, where core.hooksPath names the directory", ".git*hooks*"),
		file("husky", "runs hooks of git", ".husky", ".huskyrc*"),
		file("pre-commit", "runs hooks of git", ".pre-commit-config.y*ml", "prek.toml"),
		file("Lefthook", "runs hooks of git", "lefthook.*", "lefthook-local.*", ".lefthook*"),
		file("lint-staged", "runs commands for a commit", ".lintstagedrc*", "lint-staged.config.*"),
		file("a manager of hooks (Overcommit, hk, CaptainHook, GrumPHP)", "runs hooks of git", ".overcommit.yml", "hk.pkl", "captainhook.json", "grumphp.yml*"),
	}
}

func shellFiles() []ProtectedFile {
	return []ProtectedFile{
		file("direnv", "runs it", ".envrc"),
		file("a plugin of the shell (dotenv, autoenv)", "runs it, or sets variables such as PATH", ".env", ".env.leave", ".autoenv*"),
		file("mise", "runs hooks, and changes PATH and other variables", "mise.toml", "mise.*.toml", ".mise.toml", ".mise.*.toml", ".mise", ".miserc.toml", "**/mise/config*.toml", "**/.config/mise", ".rtx.toml", ".rtx.*.toml"),
		file("asdf or mise", "installs and selects the programs that it names", ".tool-versions"),
		file("shadowenv", "changes variables", ".shadowenv.d"),
		file("Hermit", "activates the programs of bin", "**/bin/hermit*", "**/bin/activate-hermit*"),
	}
}

func editorFiles() []ProtectedFile {
	return []ProtectedFile{
		file("Visual Studio Code", "runs tasks, servers and programs that its settings name", ".vscode", "*.code-workspace"),
		file("an editor with containers", "builds and starts a container, and runs commands on the host before", ".devcontainer", ".devcontainer.json"),
		file("an IDE of JetBrains", "runs tasks at its start, and programs that its settings name", ".idea", ".run", ".fleet"),
		file("Zed", "starts the language servers and programs that its settings name", ".zed"),
		file("Helix", "starts the language servers that it names", ".helix"),
		file("Vim or Neovim", "runs it, with 'exrc' or a plugin for local settings", ".exrc", "_exrc", ".vimrc", "_vimrc", ".gvimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".lazy.lua", ".neoconf.json", ".vim"),
		file("Emacs", "evaluates expressions of local variables", ".dir-locals.el", ".dir-locals-2.el"),
		file("Sublime Text, Eclipse, Visual Studio or Nova", "runs builders and programs that its settings name", "*.sublime-project", ".project", ".externalToolBuilders", ".vs", ".nova"),
		file("an editor in the cloud", "sets up a machine and runs commands", ".gitpod.y*ml", ".gitpod.Dockerfile", ".codesandbox", ".stackblitzrc", ".replit", "replit.nix", ".idx", "devfile.yaml", ".devfile.yaml"),
	}
}

func agentFiles() []ProtectedFile {
	const effect = "starts the servers, hooks and plugins that it names"
	return []ProtectedFile{
		file("Claude Code", effect, ".claude", ".mcp.json"),
		file("Codex", effect, ".codex", ".agents"),
		file("Gemini CLI or Qwen Code", effect, ".gemini", ".qwen"),
		file("Cursor", effect, ".cursor"),
		file("opencode", effect, "opencode.json*", ".opencode", ".opencode.json*"),
		file("GitHub Copilot", effect, ".github/hooks", ".github/copilot", ".copilot"),
		file("another agent", effect, ".amazonq", ".amp", ".augment", "**/.clinerules/hooks", ".cline", ".continue", "crush.json", ".crush.json", ".factory", ".junie", ".kilocode", ".kiro", ".openhands",
			".pi", ".roo", ".trae", ".vibe", ".windsurf"),
		file("aider", "runs the commands for lint and test that it names", ".aider.conf.yml"),
		file("Conductor or another manager of agents", "runs its setup command", "conductor.json", ".conductor", ".superset", ".emdash.json"),
	}
}

func packageFiles() []ProtectedFile {
	return []ProtectedFile{
		file("npm", "loads the module, shell and programs that it names, and sends logins to its registry", ".npmrc"),
		file("pnpm", "runs it, or the file that it names", ".pnpmfile.*", "pnpm-workspace.yaml"),
		file("Yarn", "runs the program and plugins that it names", ".yarnrc", ".yarnrc.yml", "**/.yarn/releases", "**/.yarn/plugins", "**/.yarn/sdks"),
		file("Bun", "loads the modules that it names", "bunfig.toml", ".bunfig.toml"),
		file("Bundler", "loads the plugins that it names", ".bundle"),
		file("Maven", "loads the extensions and options that it names", ".mvn"),
		file("Cargo or rustup", "runs the compiler, its wrapper and other programs that it names", "**/.cargo/config", "**/.cargo/config.toml", "rust-toolchain", "rust-toolchain.toml"),
	}
}

func startFiles() []ProtectedFile {
	return []ProtectedFile{
		file("R", "runs it", ".Rprofile", ".Renviron", ".RData"),
		file("a debugger (gdb, lldb, pdb, perl)", "runs it", ".gdbinit", ".lldbinit", ".pdbrc", ".perldb"),
		file("an interpreter (irb, pry, iex, ghci, ocaml, octave)", "runs it", ".irbrc", ".pryrc", ".iex.exs", ".ghci", ".ocamlinit", ".octaverc"),
		file("Ansible", "loads the plugins that it names", "ansible.cfg"),
	}
}

func forgeFiles() []ProtectedFile {
	const effect = "runs its jobs"
	return []ProtectedFile{
		file("GitHub", effect, ".github/workflows", ".github/actions"),
		file("Gitea or Forgejo", effect, ".gitea/workflows", ".forgejo/workflows"),
		file("GitLab", "runs its jobs, and applies the configuration of its agents", ".gitlab-ci.yml", ".gitlab/ci", ".gitlab/agents"),
		file("Jenkins", effect, "Jenkinsfile*", "*.jenkinsfile"),
		file("Drone or Woodpecker", effect, ".drone.*", ".woodpecker", ".woodpecker.y*ml"),
		file("Azure Pipelines", effect, "azure-pipelines*.y*ml", ".azure-pipelines", ".azuredevops"),
		file("CircleCI", effect, ".circleci"),
		file("another CI server", effect, ".travis.yml", "appveyor.yml", ".appveyor.yml", "bitbucket-pipelines.yml", ".buildkite", ".cirrus.*", ".semaphore", ".teamcity", ".build.yml", ".builds", "buildspec*.y*ml",
			"cloudbuild*.y*ml", "codemagic.yaml", "bitrise.yml", ".tekton", ".harness", ".onedev-buildspec.yml", ".zuul.yaml", "zuul.yaml", ".zuul.d", "zuul.d", ".taskcluster.yml", ".packit.y*ml", ".prow*", "*.gocd.y*ml"),
		file("a host of web sites or documentation", "builds and publishes", ".readthedocs.y*ml", "netlify.toml", "vercel.json", "amplify.yml", "render.yaml", "railway.json", "railway.toml", "heroku.yml", ".platform.app.yaml", ".upsun", ".do"),
	}
}
