package reference

func gitTables() []Table {
	return []Table{{Name: "git", Keys: []Key{
		{Name: "trailer", Text: "Names the agent at the end of a merge's message, as git-interpret-trailers(1) does; \"\" means none."},
		{Name: "remote", Text: `What agents may do with the project's remotes: "none", "fetch", or "push" (and fetch).` +
			"\n\nAn agent may push its own branch, branches and tags that it made, and the branches that `branches` matches. It may push to the target branch only if `branches` matches it.",
			Values: []string{"none", "fetch", "push"}},
		{Name: "branches", Text: "Patterns of further branches of remotes that may be pushed to; `*` does not match a slash.", Example: `["release/*"]`},
		{Name: "ask", Text: `Operations that need a person's approval each time, of those that ` + "`remote`" + ` allows: "fetch", "push" or both.`, Example: `["push"]`},
		{Name: "hooks", Text: `Whether the git hooks of the project run when agents commit: those in .git/hooks, or in the directory of the repository that core.hooksPath of its owner names. ` +
			`With "run" they run in the sandbox of the agent, with its rights, from its next start on. They never run on the host. See docs/concepts.md, Git.`, Values: []string{"off", "run"}},
	}}, {Name: "git.identity", Text: "The author of agents' commits. In the agent's worktree it overrides all other configuration. It does not apply to other repositories. " +
		"A missing key is that of the project's owner, as git var prints it in the project. A base type may have an `identity` too.", Keys: []Key{
		{Name: "name", Text: "The name; {agent} stands for the agent's name.", Default: "of the owner", Example: `"{agent} (agent)"`},
		{Name: "email", Text: "The address; {agent} stands for the agent's name.", Default: "of the owner", Example: `"{agent}@example.org"`},
	}}, {Name: "git.agents.NAME", Text: "The same for one agent.", Like: "git", Example: "[git.agents.reviewer]\nremote = \"fetch\""},
		{Name: "git.agents.NAME.identity", Like: "git.identity"}}
}

func mergeTables() []Table {
	return []Table{{Name: "merge", Keys: []Key{
		{Name: "auto_merge", Text: "Merge the branch of a task that ends with exit code 0."},
		{Name: "on_start", Text: "How an agent's branch is brought up to date before a task, if the target has moved. With \"update\", a branch without work of its own moves to the target. " +
			"With \"rebase\", the target is also merged into other branches, unless that conflicts. With \"keep\", branches are unchanged.", Values: []string{"update", "rebase", "keep"}},
		{Name: "remove_after", Text: "Remove an agent, with its worktree and own branch, when its branch is merged and it has no other work."},
		{Name: "check", Text: "A shell command that must succeed on the result of a merge.", Example: `"make test"`},
		{Name: "hooks", Text: "Run the hooks pre-merge-commit and commit-msg of the project on the result of a merge, in the sandbox of the check and before it. They can refuse the merge, and change nothing. See `git.hooks`."},
		{Name: "sign", Text: "Merge only what a person has signed: `polisctl merge NAME --sign` has the git of its caller sign the merge commit. Without a signature a merge fails with SIGNATURE_REQUIRED, and the branch stays pending. polis requires that there is a signature, and does not verify it."},
		{Name: "check_timeout", Text: "The time limit of the check.", Range: between("1s", "24h")},
		{Name: "check_memory_mb", Text: "The memory limit of the check, in MiB; 0 means the limit of an agent.", Range: between("16", "1048576"), Zero: true},
		{Name: "rework", Text: "What happens after a conflict or a failed check. With \"offer\", the task to resolve it is offered, see polisctl-queue-rework(1). " +
			"With \"new\", an ephemeral agent gets the task; with \"same\", the agent of the branch gets it. With \"none\", there is no task.", Values: []string{"offer", "new", "same", "none"}},
		{Name: "batch", Text: "How many waiting branches are merged and checked together.", Range: between("1", "64")},
		{Name: "protected", Text: "Globs of paths whose changes are merged only by `polisctl merge --accept-protected`: files that a machine, a forge or polis acts upon at once. " +
			"The list replaces the default, unless it has \"@default\", which stands for the files of git, shells, editors, agents, package managers and forges that docs/configuration.md lists. " +
			"[] protects only .worktreeinclude.", Example: `["@default", "Makefile", "!.env"]`},
	}}, {Name: "merge.identity", Text: "The author and committer of the commits of merges and reverts. A missing key is that of the project's owner, as git var prints it; the commit then has the trailer " +
		"`Merged-by: polis`. A merge that a person signs is by that person and has it too. If neither is known, the commit is by polis.", Keys: []Key{
		{Name: "name", Text: "The name.", Default: "of the owner", Example: `"Merge bot"`},
		{Name: "email", Text: "The address.", Default: "of the owner", Example: `"merges@example.org"`},
	}}, {Name: "merge.workspaces.NAME", Text: "The same for one workspace.", Like: "merge", Example: "[merge.workspaces.shop]\ncheck = \"npm test\""},
		{Name: "merge.workspaces.NAME.identity", Like: "merge.identity"},
		{Name: "trash", Keys: []Key{
			{Name: "ttl", Text: "How long `polisctl gc` keeps work in the trash.", Range: between("1h", "87600h")},
		}}, {Name: "snapshots", Keys: []Key{
			{Name: "ttl", Text: "The age at which a snapshot is removed that no user made, such as the one before a restore; \"0s\" means never. See polisctl-snapshot(1).", Range: between("1h", "87600h"), Zero: true},
			{Name: "every", Text: "An agent that runs gets a checkpoint after this time if something has changed, and one before each task, merge, rebase and call of a tool that can change files; \"0s\" means that checkpoints are only made on request. See polisctl-timeline(1).", Range: between("1s", "24h"), Zero: true},
			{Name: "keep", Text: "How many checkpoints an agent has; the oldest are removed.", Range: between("2", "10000")},
			{Name: "agent_mb", Text: "The limit of the files of one snapshot, and of what the snapshots of one agent add together, in MiB.", Range: between("1", "1073741824")},
			{Name: "max_mb", Text: "The limit of what the snapshots of one workspace take together, in MiB. When it is reached, the agent with the most loses its oldest checkpoints.", Range: between("1", "1073741824")},
			{Name: "ignored", Text: "Patterns of files that git ignores and that snapshots and checkpoints have all the same, in the form of .gitignore: a name without a slash is found in every directory that git does not ignore; \"**\" can only be the end. The files count for agent_mb.", Example: `[".env", "data/**"]`},
		}}, {Name: "metrics", Text: "The metrics are in docs/metrics.md. The admin socket always serves them (`polisctl metrics --prometheus`).", Keys: []Key{
			{Name: "listen", Text: "Loopback address and port that also serves the metrics, at /metrics, to every user of this machine and without a password. " +
				"Agents cannot reach it. polisd reads this key only at its start.", Default: "off", Example: `"127.0.0.1:9464"`},
		}}, {Name: "receipts", Text: "The receipts of what agents did and were refused (docs/receipts.md).", Keys: []Key{
			{Name: "max_mb", Text: "The limit of the receipts of a workspace itself, and of those of all its removed agents together, in MiB. The oldest are removed.", Range: between("1", "1048576")},
			{Name: "agent_mb", Text: "The limit of the receipts of one agent, in MiB. The oldest are removed.", Range: between("1", "1048576")},
			{Name: "keep", Text: "How long the receipts of a removed agent are kept.", Range: between("1h", "87600h")},
			{Name: "audit_on_full", Text: "What happens while receipts cannot be written, because the disk is full. With \"drop\", they are dropped, and an entry says how many. " +
				"With \"deny\", polisd refuses what must be recorded (`AUDIT_FULL`).", Values: []string{"drop", "deny"}},
		}}, {Name: "maintenance", Keys: []Key{
			{Name: "interval", Text: "How often the shared repository of a workspace is maintained, while no git process holds a lock in it; \"0s\" means never. See polisctl-maintenance(1).", Range: between("0s", "8760h")},
			{Name: "grace", Text: "How long an object that nothing needs is kept after it was last written.", Range: between("1h", "87600h")},
			{Name: "timeout", Text: "The time limit of a maintenance.", Range: between("1m", "24h")},
		}}}
}

func patrolTables() []Table {
	return []Table{{Name: "patrol", Text: "How agents that died, hang or spin are found (docs/operations.md).", Keys: []Key{
		{Name: "interval", Text: "How often the patrol checks every agent; \"0s\" means never. See polisctl-patrol(1).", Range: between("1s", "168h"), Zero: true},
		{Name: "stalled_after", Text: "An agent is stalled if it makes no progress for this time and does not wait for anything that polis knows. A step, output that does not repeat, " +
			"a change of a file, an answer of its model and computing are progress; a spinner is none. A program that waits at its prompt is never stalled. \"0s\" means never, also for `model_after`.", Range: between("1s", "168h"), Zero: true},
		{Name: "model_after", Text: "The same for an agent that waits for an answer of its model, or has an open connection to the outside. At least `stalled_after` counts. \"0s\" means never.", Range: between("1s", "168h"), Zero: true},
		{Name: "spinning_after", Text: "An agent spins if it works for this time and changes nothing: no file, and no call that it had not made before. With an open call of a tool, the time is four times as long. \"0s\" means never.", Range: between("1s", "168h"), Zero: true},
		{Name: "done_after", Text: "If a program still runs this time after its task has ended, it is ended. \"0s\" means never.", Range: between("1s", "168h"), Zero: true},
	}}, {Name: "patrol.escalation", Text: "How a case of the patrol, or of a circuit breaker, reaches a person. A case that waits for the merge queue is not sent.", Keys: []Key{
		{Name: "command", Text: "A command with its arguments, a list that begins with the absolute path of a program. It runs as the user of the workspace's agents, never as root. " +
			"Its standard input is one line of JSON: the event patrol:case with the case.", Example: `["/usr/local/bin/page-me"]`},
		{Name: "webhook", Text: "A program on this machine that gets the same JSON by POST: http:// with an address of the loopback network and a port, or unix: with the path of a socket.", Default: `""`, Example: `"http://127.0.0.1:9000/polis"`},
		{Name: "journal", Text: "The priority of the entry in the journal, or \"off\". Its fields POLIS_CASE, POLIS_AGENT and POLIS_WORKSPACE select entries with journalctl(1).",
			Values: []string{"emerg", "alert", "crit", "err", "warning", "notice", "info", "off"}},
		{Name: "again", Text: "A case that is still open is sent again after this time, then after twice as long, and so on; \"0s\" means never.", Range: between("1m", "24h"), Zero: true},
		{Name: "pause", Text: "The shortest time between two messages. At most 64 cases wait meanwhile.", Range: between("0s", "24h")},
		{Name: "timeout", Text: "The time limit of the command, which is then killed. The limit of a request to the webhook is 10s.", Range: between("1s", "10m")},
	}}, {Name: "tasks", Keys: []Key{
		{Name: "on_restart", Text: "What happens to a task that was lost because its program ended together with polisd, or with the machine. With \"keep\", a person decides: `polisctl tasks retry --lost`. " +
			"With \"retry\", it is given to its agent again, once: a task that is interrupted a second time is kept. With \"ask\", it is kept, and a case of the patrol asks a person. " +
			"The tasks that wait begin after that decision. See polisctl-tasks(1).", Values: []string{"keep", "retry", "ask"}},
	}}, {Name: "breakers", Text: "An agent that exceeds one of these numbers in any minute is frozen, not killed, and a case is opened: see polisctl-patrol-cases(1) and polisctl-agents-thaw(1). 0 is off.", Keys: []Key{
		{Name: "deletions", Text: "Different files tracked by git that programs other than git delete.", Default: "5000", Range: between("0", "1000000")},
		{Name: "denials", Text: "Refusals by its rules.", Default: "0", Range: between("0", "1000000")},
		{Name: "written_mb", Text: "MB that its processes wrote to disks.", Default: "0", Range: between("0", "1048576")},
		{Name: "names", Text: "Names that it resolved for the first time.", Default: "0", Range: between("0", "100000")},
		{Name: "repeats", Text: "Repetitions of one command in a row, for agents whose steps polis reads.", Default: "0", Range: between("0", "10000")},
	}}, {Name: "approvals", Text: "Notifications of the questions of agents (docs/approvals.md).", Keys: []Key{
		{Name: "notify", Text: "A command with its arguments, a list that begins with the absolute path of a program. polisd runs it for each new question of an agent, as the user of the " +
			"workspace's agents, never as root. Its standard input is one line of JSON: the event approval:asked with the question. See polisctl-approvals(1).", Example: `["/usr/local/bin/tell-me"]`},
		{Name: "notify_pause", Text: "The shortest time between two runs. At most 64 questions wait meanwhile.", Range: between("0s", "24h")},
		{Name: "notify_timeout", Text: "The time limit of a run, which is then killed.", Range: between("1s", "10m")},
	}}, {Name: "notify", Text: "Messages about what people wait for (docs/guide/notify.md). Without a command, a webhook and desktop, none is sent.", Keys: []Key{
		{Name: "events", Text: "The kinds of messages: an agent asks a person, a task has ended, the check of a merge has failed, a branch has conflicts, a budget for models is used to 80 percent or up.",
			Default: `["question", "task", "check", "conflict", "budget"]`, Example: `["question", "check"]`},
		{Name: "command", Text: "A command with its arguments, a list that begins with the absolute path of a program. polisd runs it for each message, as the user of the workspace's agents, " +
			"never as root. Its standard input is one line of JSON: the event, with the kind in data.kind and a sentence in message.", Example: `["/usr/share/doc/polis/examples/notify-ntfy", "https://ntfy.example.org/topic"]`},
		{Name: "webhook", Text: "A program on this machine that gets the same JSON by POST: http:// with an address of the loopback network and a port, or unix: with the path of a socket.", Default: `""`, Example: `"http://127.0.0.1:9000/polis"`},
		{Name: "desktop", Text: "Show each message on the desktop of the user of the workspace's agents, who is the owner of the project unless that is root, by the session bus of that user. " +
			"Nobody sees it while that user is not logged in; polisctl doctor counts such messages."},
		{Name: "pause", Text: "The shortest time between two messages. At most 64 messages wait meanwhile.", Range: between("0s", "24h")},
		{Name: "timeout", Text: "The time limit of a command, which is then killed. The limit of a request to the webhook is 10s.", Range: between("1s", "10m")},
	}}}
}

func roleTables() []Table {
	return []Table{{Name: "roles.NAME", Text: "A named policy, used by `polisctl agents add --role NAME`. The lists of globs are as in gitignore(5), over paths of the repository. " +
		"In a name, `[`, `*`, `?`, a backslash and a leading `!` are written with a backslash before them: `app/\\[id\\]/**`. " +
		"`hide` takes precedence over `deny`, `deny` over `ask`, `ask` over `write`, `write` over `read`. A path that no rule matches is refused.",
		Example: roleExample, Keys: []Key{
			{Name: "read", Text: "Paths that agents may read."},
			{Name: "write", Text: "Paths that agents may read and change."},
			{Name: "ask", Text: "Paths about which a person decides at each read and change (docs/approvals.md)."},
			{Name: "deny", Text: "Paths whose names agents see, and which they cannot read or change."},
			{Name: "hide", Text: "Paths that do not exist for agents."},
			{Name: "exclusive", Text: "Paths that no other agent of the workspace may have a rule to write, or merge a change of. The key gives no right to write."},
			{Name: "temp", Text: "Give agents a private scratch directory, named by $TMPDIR."},
			{Name: "on_start", Text: "As in [merge].", Default: "as in [merge]", Values: []string{"update", "rebase", "keep"}},
			{Name: "remove_after", Text: "As in [merge].", Default: "as in [merge]"},
			{Name: "auto_commit", Text: "Commit the uncommitted changes of a task that ended well, before the merge."},
			{Name: "leftovers", Text: "The action for processes that a command left running when it ended. With \"ask\", they are kept and a person is notified.", Default: `"keep"`, Values: []string{"keep", "end", "ask"}},
			{Name: "model", Text: "The model for programs of the role's agents, unless a task names another.", Default: "the program's own", Example: `"opus"`},
			{Name: "models", Text: "The model for single base types.", Example: `{ codex = "gpt-5.5" }`},
			{Name: "audit", Text: "With \"full\", every open and change of a file by the role's agents is recorded, with its process (docs/receipts.md). It applies from the next start of an agent.", Default: `"standard"`, Values: []string{"standard", "full"}},
			{Name: "policy", Text: "With \"record\", the lists read and write do not restrict the role's agents, and what they use is recorded: polisctl policy learn makes a role of it (docs/learn-policy.md). The other rules and leases hold. It applies from the next start of an agent.", Default: `"enforce"`, Values: []string{"enforce", "record"}},
			{Name: "env", Text: "Variables for agents of the role, such as keys. Then set the mode of the file to 0600.", Example: `{ OPENAI_BASE_URL = "https://models.example.org/v1" }`},
		}},
		{Name: "roles.NAME.tools", Text: "Decides about tools of the programs of the role's agents (docs/approvals.md). A rule is a class (read, edit, shell, net, other) or a tool, alone or with " +
			`a pattern in parentheses, such as "shell(go test *)".`, Keys: []Key{
			{Name: "auto_deny", Text: "Calls that are refused. This list is tried first."},
			{Name: "ask", Text: "Calls about which a person decides. This list is tried after `auto_deny`."},
			{Name: "auto_approve", Text: "Calls that are allowed. This list is tried last."},
			{Name: "default", Text: "The decision about calls that no rule matches.", Default: `"ask"`, Values: []string{"ask", "approve", "deny"}},
		}},
		{Name: "roles.NAME.patrol", Text: "The action for an agent that is stalled or spins.", Keys: []Key{
			{Name: "on_stall", Text: "Report it only, type a line into its program, restart it, or stop it.", Default: `"report"`, Values: []string{"report", "nudge", "restart", "stop"}},
			{Name: "nudge", Text: "The line that \"nudge\" types, at most 1000 bytes.", Default: "a request to continue, or to name what it waits for"},
		}},
		{Name: "roles.NAME.locks", Like: "locks"},
		{Name: "roles.NAME.locks.rule", Text: "The role's rules follow those of [[locks.rule]].", Like: "locks.rule"},
		{Name: "roles.NAME.network", Like: "network"},
		{Name: "roles.NAME.git", Like: "git"},
		{Name: "roles.NAME.git.identity", Like: "git.identity"},
		{Name: "roles.NAME.breakers", Like: "breakers"},
		{Name: "roles.NAME.gateway", Text: "What agents of the role use of the model services. A number that is 0 is as in [gateway].", Like: "gateway", Example: "[roles.docs.gateway]\ntask_tokens = 2000000"},
		{Name: "roles.NAME.shared_budget", Text: "What all agents of the role use of the model services together, workers included (docs/gateway.md, \"Budgets of a role\"). What happens when it is spent is `on_budget` of the role.",
			Example: "[roles.docs.shared_budget]\nday_tokens = 20000000", Keys: []Key{
				{Name: "day_tokens", Text: "Tokens of all agents of the role on one day, in UTC. 0 is no limit.", Range: between("0", "1000000000000000")},
				{Name: "day_money", Text: "Cost of all agents of the role on one day, in the currency of the prices. 0 is no limit.", Range: between("0", "1000000000")},
			}},
		{Name: "agents.NAME", Text: "Settings of the agent with this name.", Example: "[agents.claude.env]\nANTHROPIC_API_KEY = \"...\"", Keys: []Key{
			{Name: "audit", Text: "As in [roles.NAME].", Default: "that of its role", Values: []string{"standard", "full"}},
			{Name: "policy", Text: "As in [roles.NAME].", Default: "that of its role", Values: []string{"enforce", "record"}},
			{Name: "env", Text: "Variables for the agent, such as keys; they override those of its role.", Example: `{ ANTHROPIC_API_KEY = "..." }`},
		}}}
}

const roleExample = `[roles.docs]
read  = ["**"]
write = ["docs/**", "*.md"]
deny  = [".env"]
leftovers = "keep"
[roles.docs.tools]
auto_approve = ["read", "edit(docs/)", "shell(make docs)"]
auto_deny    = ["shell(rm *)"]
ask          = ["net"]
default      = "ask"
[roles.docs.env]
OPENAI_BASE_URL = "https://models.example.org/v1"

[roles.complex-feature]
model  = "opus"
models = { codex = "gpt-5.5" }
[roles.complex-feature.tools]
auto_approve = ["read_file", "glob", "grep"]

[roles.simple-fix]
model = "sonnet"
[roles.simple-fix.tools]
auto_approve = ["read_file", "glob", "grep", "bash"]`
