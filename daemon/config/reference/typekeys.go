package reference

func typeTables() []Table {
	return []Table{{Keys: []Key{
		{Name: "description", Text: "One line about the type, for lists.", Example: `"Claude Code"`},
		{Name: "program", Text: "The program that must exist in the sandbox for the type to be available: a name, or an absolute path.", Default: "none; the type is always available", Example: `"claude"`},
		{Name: "install", Text: "The command that installs the program for all users. polis prints it and never runs it.", Example: `"sudo npm install -g @example/agent"`},
		{Name: "login", Text: "The command that the project's owner runs once to log in. polis prints it and never runs it.", Example: `"claude"`},
		{Name: "run", Text: "The command line for a task. {prompt} stands for the task; without it, the task is the last argument.", Example: `["claude", "-p", "--", "{prompt}"]`},
		{Name: "interactive", Text: "The command line without a task.", Example: `["claude"]`},
		{Name: "prompt", Text: "The arguments that give a task to a command line of the agent's own (`polisctl agents add NAME -- COMMAND`). They contain {prompt}.", Example: `["-p", "--", "{prompt}"]`},
		{Name: "model", Text: "The arguments that `run` gets before the task to select a model. {model} stands for its name.", Example: `["--model", "{model}"]`},
		{Name: "model_env", Text: "The variable that gives the program the model of a role.", Example: `"ANTHROPIC_MODEL"`},
		{Name: "continue", Text: "The arguments that `run` gets before the task to continue the last session (`polisctl run --continue`).", Example: `["--continue"]`},
		{Name: "acp", Text: "The command line that makes the program an agent of the Agent Client Protocol. Tasks are given to it if `run` is missing, or if the role has rules for tools and the program's permissions are reached by ACP."},
		{Name: "no_input", Text: "Give `run` no standard input. Without it, standard input is what `polisctl send` types into."},
		{Name: "env", Text: "Variables for the program.", Example: `{ DISABLE_AUTOUPDATER = "1" }`},
		{Name: "pass_env", Text: "Variables of polisd's own environment that agents get.", Example: `["ANTHROPIC_API_KEY"]`},
		{Name: "home_files", Text: "Files below the owner's home that each agent has a private copy of. The short form of [[home]] with the mode \"copy\"."},
		{Name: "credentials", Text: "The same for logins: a changed file of the owner replaces the copy. The short form of [[home]] with the mode \"credentials\"."},
		{Name: "hosts", Text: `The hosts that the program must reach. They are added to an agent's list of ` + "`egress`" + `. "*.x.org" does not include x.org.`, Example: `["api.anthropic.com"]`},
		{Name: "memory_mb", Text: "The least memory limit of an agent of the type, in MiB, unless it is added with one of its own.", Range: between("16", "1048576"), Zero: true},
		{Name: "context", Text: "The file that the program reads for its model: ~/FILE, or a file below a directory in /etc. polis adds a text about the sandbox to it.", Example: `"/etc/claude-code/CLAUDE.md"`},
		{Name: "tools", Text: "The program's names for tools, by the names or classes that rules use (docs/approvals.md).", Example: `{ read_file = ["Read"], bash = ["Bash"] }`},
		{Name: "sparse", Text: "The directories of the sparse checkout of an agent of the type (docs/git.md), unless it is added with others. An empty list is all files.", Default: "those of the project's own checkout", Example: `["src", "docs/api"]`},
		{Name: "auto_merge", Text: "Merge the branch of a task that ends with exit code 0.", Default: "as in [merge]"},
	}}, {Name: "stream", Text: "The machine-readable output of `run`.", Keys: []Key{
		{Name: "format", Text: "The format of the lines.", Values: []string{"claude", "cline", "codex", "copilot", "gemini", "opencode", "pi"}, Default: "none; the output is text"},
		{Name: "args", Text: "The arguments that `run` gets before the task to print these lines.", Example: `["--output-format", "stream-json"]`},
	}}, {Name: "home", Text: "A file below the owner's home that agents have (docs/configuration.md).", Keys: []Key{
		{Name: "path", Text: "The path of the file below the home directory."},
		{Name: "mode", Text: "A private copy, a private copy that each change of the owner's file replaces, or the owner's file as it is when the sandbox starts.", Values: []string{"copy", "credentials", "read-only"}, Default: `"copy"`},
	}}, {Name: "answers", Text: "A value that polis writes into a file of the agent's home before the program starts, so that a first start does not wait for an answer.", Keys: []Key{
		{Name: "file", Text: "The path of the file below the home directory."},
		{Name: "format", Text: "The format of the file.", Values: []string{"json", "toml"}},
		{Name: "at", Text: "The path of the value in the document. {project} stands for the project's path."},
		{Name: "value", Text: "true, false, a string, or in JSON a whole number or a list of strings. An existing value stays unless it is false or null."},
	}}, {Name: "gateway.NAME", Text: "How the program uses a model service of the gateway (docs/gateway.md). NAME is the kind of the service: anthropic, openai, gemini or openai-compatible; " +
		"openai serves openai-compatible too. In values, {url} stands for the address of the endpoint, and {key} for a word that is no key.",
		Example: "[gateway.openai]\nenv = { OPENAI_BASE_URL = \"{url}/v1\", OPENAI_API_KEY = \"{key}\" }", Keys: []Key{
			{Name: "env", Text: "Variables for the program. They override all others of these names.", Example: `{ OPENAI_BASE_URL = "{url}/v1", OPENAI_API_KEY = "{key}" }`},
			{Name: "without", Text: "Variables that the program does not get, because they can have a key.", Example: `["OPENAI_API_KEY"]`},
		}}, {Name: "gateway.NAME.answers", Text: "Values in files of the agent's home, as in [[answers]].", Like: "answers"}, {Name: "mounts", Text: "A directory or file of the host in the sandboxes of the type.", Keys: mountKeys()},
		{Name: "permissions", Text: "How the program's own permission system is reached.", Keys: []Key{
			{Name: "kind", Text: "By a hook that the program runs before each tool, by ACP, or not.", Values: []string{"hook", "acp", "none"}, Default: `"none"`},
			{Name: "file", Text: "The file that names the hook, as the sandbox sees it.", Example: `"/etc/claude-code/managed-settings.d/polis.json"`},
			{Name: "command", Text: "The command that speaks ACP."},
		}}, {Name: "identity", Text: "The author of commits of agents of the type, unless [git] of polisd.toml sets more.", Keys: []Key{
			{Name: "name", Text: "The name; {agent} stands for the agent's name."},
			{Name: "email", Text: "The address; {agent} stands for the agent's name."},
		}}}
}
