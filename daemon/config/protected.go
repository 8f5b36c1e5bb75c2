package config

// maxProtected bounds merge.protected.
const maxProtected = 1000

// DefaultProtected are the paths that change what the user's machine or polis
// does without being called by name: what git, editors, shells, forges and polis
// itself act upon as soon as the file is there.
func DefaultProtected() []string {
	return []string{
		".worktreeinclude",              // opens ignored files of the checkout to agents
		".gitattributes", ".gitmodules", // filters, merge drivers, other repositories
		".git*hooks*", ".husky", // hooks, wherever core.hooksPath points
		".pre-commit-config.yaml",       // as above, of pre-commit
		"lefthook.yml", ".lefthook.yml", // as above, of lefthook
		".envrc", ".mise.toml", ".tool-versions", // read on entering the directory
		".vscode/tasks.json", ".vscode/settings.json", ".vscode/launch.json",
		".devcontainer", ".devcontainer.json",
		".github/workflows", ".github/actions",
		".gitlab-ci.yml", ".circleci",
		".claude/settings.json", ".mcp.json", // commands of agents' own programs
	}
}
