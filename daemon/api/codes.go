package api

// CodeInfo is a line of the reference of codes.
type CodeInfo struct {
	Code  Code
	Group string
	// About is what happened, Do what to do about it.
	About, Do string
}

// Groups of codes, in the order of the reference.
const (
	groupAgents = "Agents"
	groupGit    = "Git and merging"
	groupHost   = "Namespaces, network and processes"
	groupFiles  = "Files and locks"
	groupState  = "State"
	groupAsking = "Requests and programs"
)

// Codes is the reference of all codes: the documentation is made of it.
func Codes() []CodeInfo {
	return []CodeInfo{
		{CodeAgentExists, groupAgents, "An agent with that name exists; the details describe it.", "Choose another name, or remove the agent."},
		{CodeAgentNotFound, groupAgents, "There is no agent of that name.", "polisctl agents list shows them."},
		{CodeInvalidName, groupAgents, "The name is not valid for an agent.", "Use 2 to 31 characters: a small letter first, then small letters, digits and '-'."},
		{CodeAgentTypeUnavailable, groupAgents, "The base type is unknown, or its program is not installed.", "polisctl agents types lists the available types."},
		{CodeMaxAgents, groupAgents, "The workspace has as many agents as the configuration allows.", "Remove one, or raise max_agents."},
		{CodeExclusivePath, groupAgents, "The agent's rules cover paths that are exclusive to another agent, or it claims paths that another agent's rules cover; the message names the agent and both rules.", "Use other paths, or change the rules of one of the agents."},
		{CodeReadOnly, groupAgents, "The agent is read-only (agents add --read-only). It has no branch, and its writes fail with EROFS. It has nothing to commit, merge, fork or compare.", "Add an agent without --read-only for work that changes files."},
		{CodeBadState, groupAgents, "The state of the agent, or of the workspace, does not permit the request; the message names the permitted requests.", "Follow the hint first."},
		{CodeUnsavedWork, groupAgents, "The agent has work that is not committed or not merged.", "Merge it, or use --force: the work is then saved in the trash and can be restored."},
		{CodeWorkspaceNotFound, groupAgents, "There is no such workspace.", "polisctl status lists the workspaces, polisctl up makes one."},
		{CodeWorkspaceInvalid, groupAgents, "polis cannot work on the project: it does not exist, it is part of a repository, or it is not readable.", "The message names the fault."},
		{CodeProjectChanged, groupAgents, "The project is not the one that was recorded when the workspace was made: another directory, another .git or a symbolic link is at its path, its owner has changed, or another user could exchange it. polis reads and writes nothing there.", "Put the project back. If it was moved, restored from a backup or cloned again on purpose: polisctl workspace move WORKSPACE PATH."},
		{CodeWorkspaceOwned, groupAgents, "Another polisd uses the workspace or the workspaces_dir; the message and the details name it.", "Use that one (polisctl --socket), stop it with its agents, or give this one another workspaces_dir."},

		{CodeWorktreeFailed, groupGit, "git could not make or remove a worktree. The steps that succeeded are undone.", "The message contains the error of git."},
		{CodeRepoCorrupt, groupGit, "The shared repository is damaged: a check found that objects which the target branch reaches are missing or unreadable, or another user owns it. Nothing is added, merged or maintained in it. Running agents continue.", "git fsck --connectivity-only refs/heads/TARGET in .polis/bare-repo.git names the missing objects. Fetch them there from a copy of the project (git fetch), or copy them back; then polisctl doctor checks the repository again. If another user owns it, find out who changed that."},
		{CodeRefConflict, groupGit, "A branch moved meanwhile, or has commits that this one does not have.", "Compare the two branches, then try again."},
		{CodeMergeConflict, groupGit, "Branches change the same lines; the details name the paths. Nothing was changed.", "Resolve it in the agent, then merge again."},
		{CodeSetupFailed, groupGit, "The setup command of the workspace fails, or what it made cannot be used. Agents start without it.", "polisctl setup log shows its output; polisctl setup run runs it again."},
		{CodeCheckFailed, groupGit, "The check command fails on the result of the merge; the target did not move.", "polisctl queue log NAME prints its output."},
		{CodeProtectedPath, groupGit, "The branch changes paths of merge.protected, a submodule, or a link out of the repository, and no person has accepted it; the details name the paths. The target did not move.", "Review the changes, then polisctl merge NAME --accept-protected."},
		{CodeSignatureRequired, groupGit, "merge.sign has every merge of the workspace wait for the signature of a person, and this one has none. The target did not move.", "As the owner of the project, whose git has a key: polisctl merge NAME --sign."},
		{CodeBadTree, groupGit, "The branch holds a tree that git refuses to check out, or one that no file system can hold; the message names the entry. The target did not move.", "Take it out of the branch's history, then merge again."},
		{CodeSubmoduleLost, groupGit, "The branch has a submodule at a commit that the project cannot get: neither its own repository of the submodule nor a remote of another machine has it. The target did not move.", "Bring the commit to the project or to the remote of the submodule, as the hint says, then merge again."},
		{CodeNothingToMerge, groupGit, "The target has every commit of the branch already.", "Only commits are merged. Commit the changes, then merge again."},
		{CodePushFailed, groupGit, "A remote could not be reached or did not take the branch, or the forge's program failed.", "The message contains the error of git or of the program, which ran as the owner of the project."},
		{CodeBranchLockTimeout, groupGit, "Another operation held the lock of the branch for longer than 5 seconds.", "Try again; polisctl locks shows the holder."},
		{CodeExclusiveLockTimeout, groupGit, "Another operation held the exclusive lock of the repository for longer than 30 seconds.", "polisctl locks shows the holder; a gc or a fetch may hang."},

		{CodeNamespaceFailed, groupHost, "The sandbox could not be made. The steps that succeeded are undone.", "The agent's shim.log has details; polisctl doctor checks the machine."},
		{CodeNetNSFailed, groupHost, "The agent's network namespace could not be made or entered. If the machine supports none, agents are refused unless sandbox.degraded allows them.", "polisctl doctor shows what is missing."},
		{CodeMountNSFailed, groupHost, "Mount namespaces are not available; agents are refused.", "Run as root with CAP_SYS_ADMIN; see /proc/sys/user/max_mnt_namespaces."},
		{CodePIDNSFailed, groupHost, "PID namespaces are not available; agents are refused unless sandbox.degraded allows them.", "Run as root with CAP_SYS_ADMIN; see /proc/sys/user/max_pid_namespaces."},
		{CodeSysboxUnavailable, groupHost, "The container in which polis runs does not permit all parts of the isolation; status and doctor list the missing ones.", "Run the container privileged, or with a runtime that gives it its own namespaces, such as Sysbox."},
		{CodeCageUnavailable, groupHost, "The kernel cannot confine git, so polisd does not run git on content of agents: every operation that needs git fails.", "Use Linux 5.13 or newer with landlock in its lsm= list, and seccomp; a container must permit landlock_create_ruleset(2). polisctl doctor shows what is missing."},
		{CodeNSRestoreFailed, groupHost, "polisd could not restore an agent's sandbox at its start; the agent's work is unchanged.", "polisctl agents start NAME tries again."},
		{CodeCgroupFailed, groupHost, "The control group could not be made or removed.", "polis needs the memory, pids and cpu controllers; polisctl doctor shows what is missing."},
		{CodeViewFailed, groupHost, "The view of the worktree could not be mounted.", "polis needs /dev/fuse; polisctl doctor shows what is missing."},
		{CodeBridgeFailed, groupHost, "The bridge to the agents' network, or the connection to a port, could not be made.", "polis needs bridge, veth and nftables; polisctl doctor shows what is missing."},
		{CodeEgressDenied, groupHost, "The agent's egress rules do not allow the name or the address: a name does not resolve, a connection is refused at once. The event names the program.", "polisctl agents set NAME --egress +WHERE allows it. The host, other agents, link-local and metadata addresses are never allowed; network.allow_private allows private networks."},
		{CodeNetworkBlocked, groupHost, "Another firewall of the host (Docker, firewalld, ufw, iptables, nftables) drops packets that the agent's own rules let out. A test packet found its hook, table and chain.", "Run the command that the hint has; with Docker, network.docker_user = true does it. polisctl doctor tests again."},
		{CodeSyscallDenied, groupHost, "The sandbox refused a system call that could leave it (EPERM). The event names the program, the call and its purpose; repetitions are counted.", "Check why the program makes the call; /run/polis/why and polisctl agents why NAME show what to do instead."},
		{CodePortInUse, groupHost, "The agent's port is mapped already. In an event: an external port is in use, and the map uses the next one.", "polisctl ports list shows the map; remove it first."},
		{CodeNoPorts, groupHost, "No external port is free, or fewer consecutive ones than the range needs.", "The hint names a map to remove; or remove an agent, or widen network.ports."},
		{CodePortNotFound, groupHost, "There is no such port map.", "polisctl ports list shows the port maps."},
		{CodeOOMKilled, groupHost, "The kernel killed a process of the agent at its memory limit; the event names the process. If it was the agent's own program, the agent is in state Error.", "polisctl agents set NAME --memory MB, then polisctl agents start NAME."},
		{CodePidsLimit, groupHost, "The agent has reached its limit of processes; forks fail with EAGAIN. The event has the number of failed forks.", "polisctl top shows the processes of each agent; polisctl agents set NAME --pids N raises the limit."},
		{CodeHostOvercommitted, groupHost, "With this agent, the sum of the limits of all running agents would exceed what [admission] permits; the message has the figures.", "Stop an agent, lower a limit, or use --force."},
		{CodeLimitBelowUse, groupHost, "The agent uses more memory than the new limit allows; the details have both figures. Nothing was changed.", "Stop some of its programs, choose a higher limit, or use --force, which kills processes until the rest fits."},
		{CodeReapFailed, groupHost, "Some processes of the agent could not be ended.", "polisctl agents stop NAME again; a process in state D waits for a disk or a network file system."},
		{CodeOrphanProcs, groupHost, "At its start, polisd found processes of an unknown agent and killed them.", "Nothing; the report of the start names them."},
		{CodeShimUnavailable, groupHost, "The agent's shim is not running, or does not answer.", "polisctl agents start NAME."},
		{CodeCommandNotFound, groupHost, "The sandbox has no such command.", "Install it on the host, or mount it with sandbox.extra_mounts."},

		{CodePathTraversal, groupFiles, "A path leads out of the worktree.", "Use a path inside it."},
		{CodeUndeclaredRead, groupFiles, "The agent's rules do not let it read the path (EACCES). It is shown as DENIED_READ if a rule denies the path, and as UNDECLARED_READ if none permits it.", "polisctl agents policy NAME shows the rules."},
		{CodeUndeclaredWrite, groupFiles, "The agent's rules do not let it change the path (EACCES); of a merge: the branch changes such paths, which the details name. A call is shown as DENIED_WRITE if a rule denies the path.", "polisctl agents policy NAME shows the rules."},
		{CodeHidden, groupFiles, "The path is hidden from the agent, which gets ENOENT.", "polisctl agents policy NAME shows the rules."},
		{CodeNotApproved, groupFiles, "The path, remote, connection or lock needs an approval, which was denied or did not arrive (EACCES).", "Request the approval again, or change the rules."},
		{CodeFileLocked, groupFiles, "Another agent has the path locked (EBUSY); the details name it.", "Wait (polisctl wait), or work on something else."},
		{CodeNotLocked, groupFiles, "The path is not locked, or the caller does not hold its lock.", "polisctl locks shows the holder."},
		{CodeQuota, groupFiles, "A limit is reached: locks of one holder, bytes or files (EDQUOT), waiting calls (EAGAIN); the refusal names the limit.", "Release locks or remove files that are not needed."},
		{CodeLockdUnavailable, groupFiles, "No new lock is available (EAGAIN): polisd is not running, or agents still reclaim the locks that they held before its restart.", "Try again in a few seconds."},
		{CodeStaleLock, groupFiles, "polis released a lock whose holder did not answer for too long, or a lock file of a git process that died.", "Nothing; what was written under the lock is kept."},
		{CodeLockBroken, groupFiles, "An administrator broke the lock (polisctl locks break).", "The event names the administrator and the reason."},
		{CodeLockCorrupt, groupFiles, "Explicit locks (polisctl lock) could not be read at start, and are lost. The file is renamed.", "Take the locks again."},

		{CodeStateCorrupt, groupState, "A state file could not be read. It is renamed, and a new one is made from worktrees and shims.", "polisctl status lists what was not found."},
		{CodeStateNotSaved, groupState, "The state file cannot be written; changes are refused until it can.", "Free space on the disk; polisd retries."},
		{CodeWorktreeMissing, groupState, "The worktree of an agent in the state file does not exist; the agent is dropped, and what is left of its work is saved in the trash.", "The report of the start names the place."},
		{CodeWorktreeCorrupt, groupState, "git cannot read an agent's worktree. polisd does not start this agent; it restores the others.", "The worktree is unchanged: repair it, then polisctl agents start NAME."},
		{CodeReceiptsBroken, groupState, "An entry of the receipts does not match its hash, or is missing.", "polisctl receipts verify names the first one; compare the log with an export from before."},
		{CodeAuditFull, groupState, "Receipts cannot be written, and `audit_on_full` is \"deny\".", "Make room on the disk of `workspaces_dir`; polisctl receipts verify shows whether receipts are written again."},
		{CodeSnapshotCorrupt, groupState, "Stored content of a snapshot is missing or does not match its hash. It is never restored.", "polisctl snapshot verify ID names the files; other snapshots of the same content are affected, too."},
		{CodeModelCountsCorrupt, groupState, "The counts of an agent's requests to model services (models.json) could not be read. Its gateway stays closed: its budgets could not hold.", "Copy logs/NAME/models.json back from a backup; or move it and models.log away, and all counts of the agent begin at 0. Then reload polisd."},
		{CodeSnapshotDiffers, groupState, "An agent's files are not those of the snapshot that they were compared with.", "polisctl snapshot diff ID lists what differs now; polisctl snapshot restore ID brings the files back."},
		{CodeReconcileConflict, groupState, "The state file and the file system differ about an agent. The file system takes precedence; a worktree without a record is added with defaults. Of two records of one agent, the first takes precedence.", "The report of the start names them."},

		{CodeBadRequest, groupAsking, "The request, or an argument, is wrong; nothing was done.", "The message names it."},
		{CodeInvalidConfig, groupAsking, "A configuration file has an error.", "The message names the line; see polisd.toml(5)."},
		{CodeForbidden, groupAsking, "The caller does not have the permission.", "Be root or a member of group polis (members of read_group may only read); for pull requests, the owner of the project."},
		{CodeAlreadyAnswered, groupAsking, "Another person, or another terminal, answered the question first; the details have the answer.", "The first answer is final; polisctl approvals rules lists remembered answers."},
		{CodeNotFound, groupAsking, "There is no such route, branch, remote or commit.", "The message names it."},
		{CodeTooLarge, groupAsking, "A request or an answer exceeds its limit, or a path is longer than 4096 bytes (ENAMETOOLONG).", "Send less; use a shorter path."},
		{CodeTimeout, groupAsking, "The request took too long, or was interrupted; polisd may still be working on it.", "polisctl status shows the state; --timeout gives more time."},
		{CodeUnavailable, groupAsking, "polisd is not running or not healthy, or another polisd uses the same run_dir.", "systemctl status polisd."},
		{CodeInternal, groupAsking, "An error that has no code of its own.", "The log of polisd has details."},
	}
}
