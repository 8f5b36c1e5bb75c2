package reference

func topLevel() Table {
	return Table{Keys: []Key{
		{Name: "run_dir", Text: "The directory for sockets and other files that are not needed after a reboot. Its path has at most 50 bytes."},
		{Name: "workspaces_dir", Text: `The directory for the list of workspaces, and for workspaces that were added without a directory ("polisctl up URL").`},
		{Name: "agents_dir", Text: "The directory with base types of agents (claude, gemini, ...), one file NAME.toml each. They override the built-in ones. See polis-agents.d(5)."},
		{Name: "shim", Text: "The program polis-shim(8), which runs once for each agent.", Default: "beside polisd, else /usr/lib/polis/polis-shim", Example: `"/usr/lib/polis/polis-shim"`},
		{Name: "launcher", Text: `The parent of shims: "systemd" (polis-agent@ units), "fork" (polisd itself), or "auto" (systemd if it started polisd, else polisd).`, Values: []string{"auto", "systemd", "fork"}},
		{Name: "max_agents", Text: "How many agents a workspace may have.", Range: between("1", "1000")},
		{Name: "log_level", Text: "The least level of the entries in polisd's log.", Values: []string{"debug", "info", "warn", "error"}},
		{Name: "read_group", Text: "A group, by name or number, whose members may only read through the admin socket (status, events, logs, diffs). " +
			"Members of the group polis may do everything. polisd reads this key only at its start.", Default: "none", Example: `"polis-read"`},
	}}
}

func networkTables() []Table {
	return []Table{{Name: "network", Keys: []Key{
		{Name: "pool", Text: "Private IPv4 network of the agents, at least a /22."},
		{Name: "ports", Text: "External ports of port maps: FIRST-LAST, from 1024 to 65535."},
		{Name: "bind", Text: "Address of the host that port maps are bound to, unless `polisctl ports add --bind` sets another."},
		{Name: "auto_map", Text: "Map a port, TCP or UDP, as soon as an agent listens on it."},
		{Name: "proxy", Text: "Address and port of an HTTP proxy that gives names to the web servers of agents: " +
			"`http://AGENT.polis.localhost:3000/` is the first web server of an agent, `http://PORT.AGENT.polis.localhost:3000/` that port of it. " +
			"The port must not be one of `ports`.", Default: "off", Example: `"127.0.0.1:3000"`},
		{Name: "egress", Text: `Where agents may connect to: "open" (the internet), "none", "ask", or a list of names ("example.org"), of patterns for all names ` +
			`below a name ("*.example.org", which does not include example.org), and of IPv4 addresses and networks. With "ask:NAME" in a list, and ` +
			`with "ask" for everything that is not listed, a connection waits for a person's answer (docs/approvals.md).` +
			"\n\nThe hosts of the agent's base type are added to a list. A change applies at once, also to open connections. With every value, agents do not reach the host, other agents, " +
			"link-local and metadata addresses, or IPv6.", Example: `["example.org", "*.example.org", "192.0.2.0/24"]`},
		{Name: "allow_private", Text: "Networks in 10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12 and 192.168.0.0/16 that agents may reach. Agents do not reach the rest of these.", Example: `["10.1.0.0/16"]`},
		{Name: "host_ports", Text: "TCP ports of the host's 127.0.0.1 that agents reach at their own 127.0.0.1, such as the port of a local model server; at most 64." +
			"\n\nThe names host.polis and host.docker.internal lead to them. They are reachable under every `egress`.", Example: "[11434]"},
		{Name: "resolv_conf", Text: "The file that names the resolvers to which polis forwards the queries of agents."},
		{Name: "docker_user", Text: "Add two rules for the agents' bridge to DOCKER-USER, the chain that Docker documents for rules of others, with iptables; also when Docker is started later." +
			"\n\nDocker's forward policy drops packets of agents otherwise. The rules go when polisd stops with its network, or with `false`. Without Docker nothing is done."},
	}}, {Name: "delegate", Keys: []Key{
		{Name: "base_type", Text: "Base type of an agent that `polisctl delegate` makes without `--base`.", Default: "the only one whose program is installed", Example: `"claude"`},
		{Name: "workers", Text: "How many workers an agent may have, including the workers of its workers. With 0, agents cannot delegate.", Range: between("0", "100")},
		{Name: "depth", Text: "How deeply workers of agents may be nested.", Range: between("1", "8")},
	}}}
}

func lockTables() []Table {
	return []Table{{Name: "locks", Keys: []Key{
		{Name: "on_conflict", Text: `When a second writer gets EBUSY: at once ("fail"), or after a wait of this duration, up to 10m. Waiters are served in order.`, Values: []string{"fail"}},
		{Name: "wait", Text: "The same as `on_conflict`, as a duration. Only one of them may be set.", Default: "none", Range: between("0s", "10m")},
		{Name: "hold", Text: `How long a lease is held after the last write: a duration up to 24h, "close" (until the file is closed, and no mapping can write to it any more), ` +
			`or "merge" (until the agent's changes are merged or the agent is removed, even while it is stopped). ` +
			"A lease under which nothing was changed ends at the close.", Values: []string{"close", "merge"}},
		{Name: "trees", Text: "Whether agents may lock directories (`polisctl lock --tree` in the sandbox). With \"ask\" a person answers each time.", Values: []string{"allow", "ask", "deny"}},
		{Name: "stale_timeout", Text: "A shim that sends nothing to polisd for this time loses its leases, and refuses writes under them.", Range: between("0s", "10m")},
		{Name: "grace", Text: "After a restart of polisd, agents reclaim the leases that they hold for this time. New leases are granted after it.", Range: between("0s", "10m")},
		{Name: "daemon_wait", Text: "How long an access that needs a new lease waits for polisd while polisd is not running (it restarts). The access then fails with EAGAIN. " +
			"Leases that an agent holds do not need polisd.", Range: between("0s", "10m")},
		{Name: "explicit_max", Text: "The longest time for which an agent can hold a lock that it takes itself (`polisctl lock` in the sandbox), even if it takes the lock again; \"0s\": no limit." +
			"\n\nThe command can set a shorter time. For the next tenth of that time, at most a minute, the agent gets no lock on the same path. " +
			"An agent can have 64 such locks. Locks that people take have no limit.", Range: between("0s", "168h")},
		{Name: "exempt", Text: "Globs of paths that never take a lease; none begins with `!`. Paths that git ignores and does not track never do.", Example: `["*.log"]`},
		{Name: "delegate", Text: "The shim of an agent that is alone in a directory grants the leases there itself, without a request to polisd for every file that is changed for the first time." +
			"\n\nWhen another agent wants a lease there, polisd first recalls the directory. Lists of leases are then up to 100 ms late. While polisd is not running, " +
			"such an agent can still take new leases in its directories."},
		{Name: "temp_names", Text: "Patterns of temporary names, in addition to the built-in ones. A file with such a name stands for the file that it is renamed to.", Example: `["*.swx"]`},
		{Name: "temp_files", Text: "Programs can make a file of any new name in a directory of which the rules let the agent write single files, to save one of those. " +
			"Such a file takes no lease. It can only be renamed to a file that the agent may write, or removed; and such a file can be renamed to a new name as a backup. " +
			"Most programs save that way (`patch`, `perl -i`, `rsync`, IDEs). It applies to agents that start later."},
	}}, {Name: "locks.rule", Text: "Sets `hold`, `on_conflict` or both for some paths. The last rule that matches a path applies; a key that it does not have is taken from " +
		"earlier matching rules, or from [locks].",
		Example: "[[locks.rule]]\nglob = \"go.sum\"\nhold = \"close\"\non_conflict = \"20s\"",
		Keys: []Key{
			{Name: "glob", Text: "The paths, as in gitignore(5)."},
			{Name: "hold", Text: "As in [locks].", Values: []string{"close", "merge"}},
			{Name: "on_conflict", Text: "As in [locks].", Values: []string{"fail"}},
		}}}
}

func limitTables() []Table {
	const noLimit = " 0 is no limit."
	return []Table{{Name: "limits", Text: "The limits of each agent, unless it is added with others.", Keys: []Key{
		{Name: "memory_mb", Text: "Memory, swap included, in MiB. Above it the kernel kills one process of the agent (`OOM_KILLED`).", Range: between("16", "1048576")},
		{Name: "pids", Text: "Processes and threads.", Range: between("16", "1048576")},
		{Name: "cpu_weight", Text: "Share of busy processors, for the agent and its shim together.", Range: between("1", "10000")},
		{Name: "cpu", Text: "The most processor time, in percent of one processor, even if processors are idle." + noLimit, Range: between("0", "100000")},
		{Name: "io_weight", Text: "Share of the disks under load, from 1 to 1000, if their scheduler supports weights. 0 is the kernel's default.", Range: between("0", "1000")},
		{Name: "stop_grace", Text: "Time between TERM and KILL. polisd and the shims extend their units' `TimeoutStopSec=` by it.", Range: between("0s", "10m")},
		{Name: "log_mb", Text: "Size of an agent's output log before it is rotated, in MiB. The log of the machine-readable output that polis reads has the same limit.", Range: between("1", "1024")},
		{Name: "git_objects_mb", Text: "How much an agent may add to the shared git objects, in MiB. Above it, writes fail with EDQUOT (`QUOTA`)." + noLimit, Range: between("0", "1073741824")},
		{Name: "git_memory_mb", Text: "Memory of all git commands that polis runs for one agent (merge, diff, status), in MiB. A command that exceeds it fails with \"out of memory\"." + noLimit, Range: between("64", "1073741824"), Zero: true},
		{Name: "disk_mb", Text: "Size of the worktree, home and scratch directory of an agent, in MiB." + noLimit +
			"\n\nAt the limit, its view refuses operations that add data (EDQUOT, `QUOTA`). The size is measured every few seconds, so that writes to open files can exceed the limit.", Range: between("16", "1073741824"), Zero: true},
		{Name: "disk_files", Text: "How many files, directories, links, pipes and sockets an agent may have there. At the limit, its view makes no more (EDQUOT, `QUOTA`)." + noLimit, Range: between("100", "1073741824"), Zero: true},
		{Name: "connections", Text: "How many connections to the outside an agent may have at a time, and never more than a sixteenth of the kernel's table " +
			"(net.netfilter.nf_conntrack_max). Further connections are refused." + noLimit, Range: between("16", "1048576"), Zero: true},
	}}, {Name: "limits.memory_ask", Text: "An agent requests more memory from a person (docs/approvals.md).", Keys: []Key{
		{Name: "at", Text: "An agent whose programs need this part of its memory limit, in percent, requests more.", Range: between("50", "99")},
		{Name: "step_mb", Text: "How much an approval adds to the limit, in MiB. With 0, no agent requests more.", Range: between("16", "1048576"), Zero: true},
		{Name: "max_mb", Text: "The highest limit that approvals can set, in MiB. It is required with `step_mb`.", Range: between("16", "1048576"), Zero: true},
	}}, {Name: "limits.total", Text: "The limits of all agents together. With systemd they are set on polis.slice, which also contains polisd and the shims.", Keys: []Key{
		{Name: "memory_mb", Text: "Memory, in MiB; at least `limits.memory_mb`." + noLimit, Range: between("16", "1073741824"), Zero: true},
		{Name: "cpu", Text: "Processor time, in percent of one processor." + noLimit, Range: between("0", "100000")},
		{Name: "pids", Text: "Processes and threads; at least `limits.pids`." + noLimit, Range: between("16", "4194304"), Zero: true},
	}}, {Name: "admission", Text: "How large the limits of all running agents may be together. An agent that would exceed that is refused (`HOST_OVERCOMMITTED`), " +
		"unless it is added or started with `--force`. The error has the figures.", Keys: []Key{
		{Name: "reserve_mb", Text: "Memory that is reserved for other programs, in MiB.", Range: between("0", "1073741824")},
		{Name: "overcommit", Text: "The sum of the limits of all running agents may be this many times the available amount (of memory: the rest, or `limits.total`; " +
			"of processes: the process numbers of the machine). Most agents use much less than their limits. With 1, the limits never exceed the available amount.", Range: between("0.1", "1000")},
		{Name: "disk_free_mb", Text: "How much space must be free on the disk with the workspace, in MiB.", Range: between("0", "1073741824")},
	}}}
}

func sandboxTables() []Table {
	return []Table{{Name: "sandbox", Keys: []Key{
		{Name: "user", Text: "The user that agents run as when the project belongs to root. Otherwise they run as its owner."},
		{Name: "extra_mounts", Text: "Further directories or files of the host in every sandbox.", Example: `[{ source = "/opt/tools", dest = "/opt/tools", read_only = true }]`},
		{Name: "path", Text: "Directories that precede the system's in the PATH of every sandbox, and that are searched first for the programs of base types. " +
			"A directory that is not below /usr or /opt needs `extra_mounts` too.", Example: `["/opt/tools/bin"]`},
		{Name: "degraded", Text: `Whether to "refuse" agents if this machine, or the container in which polisd runs, cannot isolate them fully, or to "allow" agents without the missing parts. ` +
			"`polisctl doctor` lists these. Without mount namespaces or FUSE, agents are always refused.", Values: []string{"refuse", "allow"}},
		{Name: "user_namespaces", Text: "Let agents make user namespaces, and all other namespaces in these, for sandboxes of their own, such as bwrap(1). Agents can then use more of the kernel."},
		{Name: "fuse_io_uring", Text: "Let the kernel send requests to views by io_uring(7) (Linux 6.14 and newer), which takes a third less processor time for each. " +
			"polisd then sets `enable_uring` of the fuse module while it runs, which also enables it for the other FUSE servers of the machine." +
			"\n\nIt applies to views that are mounted later. If the kernel does not support it, or the machine has more than 16 processors, requests are sent over /dev/fuse."},
	}}, {Name: "sandbox.extra_mounts", Text: "Each element of the list `extra_mounts`.", Keys: mountKeys()},
		{Name: "shared", Text: "Files that the agents of a workspace share. For a project without git this table has no effect.", Keys: []Key{
			{Name: "paths", Text: "Globs, as in gitignore(5), of files of the project that every agent sees although git ignores them. " +
				"They are not copied or linked: the first change of a file makes a copy for the agent, and the project's file is unchanged." +
				"\n\nA shown file must be ignored and untracked in the project and in the agent's worktree. The file .worktreeinclude " +
				"in the project's root adds patterns, one per line; a pattern with a leading `!` excludes names."},
			{Name: "pnpm", Text: "Let `npm install` and similar commands be performed by pnpm if it is installed, and store the content of packages once for all agents."},
		}}, {Name: "workspace", Keys: []Key{
			{Name: "worktree", Text: `The kind of worktree of a new agent: "full" is a checkout of its own; "shared" is a base tree that agents on the same files share, with the agent's changes above it (overlayfs).`, Values: []string{"full", "shared"}},
			{Name: "layers", Text: `The order of the view and the overlay of a "shared" worktree: "view" puts the view above the overlay; "auto" puts the overlay above the view for an agent whose rules ` +
				"withhold no file from reading, which then reads files that it has not changed without the view. The order is chosen at each start of the agent.", Values: []string{"view", "auto"}},
			{Name: "in_user_directories", Text: "Permit new workspaces in directories of users, such as a home directory, or in ones in which others can write. These users can exchange the workspace while polisd, which is root, works in it: permit it only where you trust them as root."},
		}}, setupTable(),
		{Name: "workspace.setup.workspaces.NAME", Text: "The same for one workspace.", Like: "workspace.setup", Example: "[workspace.setup.workspaces.shop]\ntimeout = \"30m\""}}
}

func setupTable() Table {
	return Table{Name: "workspace.setup", Text: `What every worktree needs before an agent can test, such as node_modules. It is made once for each content of its input files, and agents share it. It needs worktree = "shared". See polisctl-setup(1).`, Keys: []Key{
		{Name: "run", Text: "A shell command that makes files which git ignores. It runs in a sandbox, in the background; \"\" means none. An example is npm ci."},
		{Name: "inputs", Text: "Patterns, as in gitignore(5), of the tracked files that the command depends on. It runs again when they change. A commit without any of them is not set up.", Example: `["package.json", "package-lock.json"]`},
		{Name: "timeout", Text: "The time limit of the command.", Range: between("1s", "24h")},
		{Name: "egress", Text: "The destinations that the command may reach, as in [network].", Default: "as in [network]", Example: `["packages.example.com"]`},
		{Name: "memory_mb", Text: "The memory limit of the command, in MiB; 0 means the limit of an agent.", Range: between("16", "1048576"), Zero: true},
		{Name: "disk_mb", Text: "The most that the command may write, in MiB.", Range: between("1", "1048576")},
		{Name: "keep", Text: "How many results are kept that no agent uses, besides the latest.", Range: between("0", "100")},
	}}
}

func mountKeys() []Key {
	return []Key{
		{Name: "source", Text: "The absolute path on the host. If a symbolic link of a user is on the way to it, polis opens it with the rights of the user as whom agents run, else as root."},
		{Name: "dest", Text: "The absolute path in the sandbox."},
		{Name: "read_only", Text: "Whether the sandbox cannot change it."},
	}
}
