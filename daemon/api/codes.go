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
		{CodeAgentExists, groupAgents, "An agent of that name exists; the details have it.", "Choose another name, or remove the agent."},
		{CodeAgentNotFound, groupAgents, "There is no agent of that name.", "polisctl agents list shows them."},
		{CodeInvalidName, groupAgents, "The name cannot be an agent's.", "Use 2 to 31 characters: a small letter first, then small letters, digits and '-'."},
		{CodeAgentTypeUnavailable, groupAgents, "The base type is not known, or its program is not installed.", "polisctl agents types lists what can be used."},
		{CodeMaxAgents, groupAgents, "The workspace has as many agents as the configuration allows.", "Remove one, or raise max_agents."},
		{CodeExclusivePath, groupAgents, "The agent would have, or claim, paths that another agent has for itself (exclusive); the message names the agent and both rules.", "Use other paths, or change the rules of one of the agents."},
		{CodeReadOnly, groupAgents, "The agent is read-only (agents add --read-only): it has no branch and changes no file (EROFS), so there is nothing to commit, merge, fork or compare.", "Add an agent without --read-only for work that changes files."},
		{CodeBadState, groupAgents, "The agent, or the workspace, is in a state in which this cannot be done; the message names what can.", "Follow the hint first."},
		{CodeUnsavedWork, groupAgents, "The agent has work that is not committed or not merged.", "Merge it, or use --force: the work is put aside then, and can be restored."},
		{CodeWorkspaceNotFound, groupAgents, "There is no such workspace.", "polisctl status lists them, polisctl up makes one."},
		{CodeWorkspaceInvalid, groupAgents, "polis cannot work on the project: it is gone, a part of a repository, or not readable.", "The message names the fault."},
		{CodeWorkspaceOwned, groupAgents, "Another polisd has the workspace, or the workspaces_dir; the message and the details name it.", "Use that one (polisctl --socket), stop it with its agents, or give this one another workspaces_dir."},

		{CodeWorktreeFailed, groupGit, "git could not make or remove a worktree. The steps that succeeded are undone.", "The message contains the error of git."},
		{CodeRepoCorrupt, groupGit, "The shared repository is damaged: a check found that the target branch leads to objects that are missing or unreadable; or it is not the daemon's own any more. Nothing is added, merged or maintained in it. Agents that live go on.", "git fsck --connectivity-only refs/heads/TARGET in .polis/bare-repo.git names what is missing; git fetch there from a copy of the project, or its objects put back, mend it; then polisctl doctor checks it again. If it is not the daemon's own, find out who changed it."},
		{CodeRefConflict, groupGit, "A branch moved meanwhile, or has a history that this one does not have.", "Try again; look at what the other side has."},
		{CodeMergeConflict, groupGit, "Branches change the same lines; the details name the paths. Nothing was changed.", "Resolve it in the agent, then merge again."},
		{CodeCheckFailed, groupGit, "The check command fails on the result of the merge; the target did not move.", "polisctl queue names the log with its output."},
		{CodeProtectedPath, groupGit, "The branch changes paths of merge.protected, a submodule, or a link out of the repository, and no person has accepted it; the details name the paths. The target did not move.", "Look at the changes, then polisctl merge NAME --accept-protected."},
		{CodeBadTree, groupGit, "The branch holds a tree that git refuses to check out, or one that no file system can hold; the message names the entry. The target did not move.", "Take it out of the branch's history, then merge again."},
		{CodeNothingToMerge, groupGit, "The target has every commit of the branch already.", "Only commits count: are the changes committed?"},
		{CodePushFailed, groupGit, "A remote could not be reached or did not take the branch, or the forge's program failed.", "The message has what git or the program said; it ran as the owner of the project."},
		{CodeBranchLockTimeout, groupGit, "Another operation had the branch for longer than 5 seconds.", "Try again; polisctl locks shows who has it."},
		{CodeExclusiveLockTimeout, groupGit, "The whole repository was in use for longer than 30 seconds.", "Is a gc or fetch stuck? polisctl locks shows who has it."},

		{CodeNamespaceFailed, groupHost, "The sandbox could not be made. What was begun is taken back.", "The agent's shim.log has details; polisctl doctor checks the machine."},
		{CodeNetNSFailed, groupHost, "The agent's network namespace could not be made or entered; if the machine gives none, agents are refused unless sandbox.degraded allows them.", "polisctl doctor."},
		{CodeMountNSFailed, groupHost, "The machine gives no mount namespace; agents are refused.", "Run as root with CAP_SYS_ADMIN; see /proc/sys/user/max_mnt_namespaces."},
		{CodePIDNSFailed, groupHost, "The machine gives no pid namespace; agents are refused unless sandbox.degraded allows them.", "Run as root with CAP_SYS_ADMIN; see /proc/sys/user/max_pid_namespaces."},
		{CodeSysboxUnavailable, groupHost, "The container polis runs in may not make all that isolates agents (status, doctor).", "Run it privileged, or with a runtime that gives it namespaces of its own, such as Sysbox."},
		{CodeCageUnavailable, groupHost, "The kernel cannot confine a git that reads what agents wrote, so the daemon runs none: nothing that needs git works.", "Linux 5.13 or newer with landlock in its lsm= list, and seccomp; a container must let landlock_create_ruleset(2) through. polisctl doctor says what is missing."},
		{CodeNSRestoreFailed, groupHost, "An agent's sandbox could not be made again at start; its work is untouched.", "polisctl agents start NAME tries again."},
		{CodeCgroupFailed, groupHost, "The control group could not be made or removed.", "polisctl doctor; polis needs the memory, pids and cpu controllers."},
		{CodeViewFailed, groupHost, "The view of the worktree could not be mounted.", "Is /dev/fuse there? polisctl doctor."},
		{CodeBridgeFailed, groupHost, "The bridge to the agents' network, or the way in to a port, could not be made.", "polis needs bridge, veth and nftables; polisctl doctor."},
		{CodeEgressDenied, groupHost, "The agent's egress does not allow the name or the address: a name does not resolve, a connection is refused at once. The event names the program.", "polisctl agents set NAME --egress LIST, if it is to be allowed. The host, other agents, link-local and metadata addresses never are; private networks are by network.allow_private."},
		{CodeSyscallDenied, groupHost, "The sandbox refused a system call that leads out of it (EPERM). The event names the program, the call and what it asked for; repetitions are counted.", "Check what the program wanted; /run/polis/why and polisctl agents why NAME say what to do instead."},
		{CodePortInUse, groupHost, "The agent's port is mapped already. In an event: an external port is in use, and the map has the next one.", "polisctl ports list; remove the map first."},
		{CodeNoPorts, groupHost, "No external port is left, or not as many in a row as a range has.", "The hint names a map to remove; or remove an agent, or widen network.ports."},
		{CodePortNotFound, groupHost, "There is no such port map.", "polisctl ports list."},
		{CodeOOMKilled, groupHost, "A process of the agent was killed because its memory limit was reached; the event names it. The agent is in Error if it was its own program.", "polisctl agents set NAME --memory MB, then polisctl agents start NAME."},
		{CodePidsLimit, groupHost, "The agent has as many processes as it may; forks fail with EAGAIN. The event has the number of failed forks.", "polisctl top shows who has them; polisctl agents set NAME --pids N."},
		{CodeHostOvercommitted, groupHost, "With this agent, the limits of all that live would be more than [admission] lets the machine promise; the message has the figures.", "Stop an agent, lower a limit, or use --force."},
		{CodeLimitBelowUse, groupHost, "The agent uses more memory than the new limit allows; the details have both. Nothing was changed.", "Stop some of what it runs, choose a higher limit, or use --force: what does not fit is killed."},
		{CodeReapFailed, groupHost, "Processes of the agent could not all be ended.", "polisctl agents stop NAME again; a process in state D waits for a disk or a network file system."},
		{CodeOrphanProcs, groupHost, "Processes of an unknown agent were found at start, and killed.", "Nothing; the report of the start names them."},
		{CodeShimUnavailable, groupHost, "The agent's sandbox does not run, or does not answer.", "polisctl agents start NAME."},
		{CodeCommandNotFound, groupHost, "The sandbox has no such command.", "Install it on the host, or mount it with sandbox.extra_mounts."},

		{CodePathTraversal, groupFiles, "A path leaves the worktree.", "Use a path inside it."},
		{CodeUndeclaredRead, groupFiles, "The agent's rules do not let it read the path (EACCES).", "polisctl agents policy NAME shows the rules."},
		{CodeUndeclaredWrite, groupFiles, "The agent's rules do not let it change the path (EACCES); of a merge: the branch changes such paths, which the details name.", "polisctl agents policy NAME shows the rules."},
		{CodeHidden, groupFiles, "The path is hidden from the agent, which gets ENOENT and no more.", "polisctl agents policy NAME shows the rules."},
		{CodeNotApproved, groupFiles, "The path, remote, connection or lock needs an approval, which was not given (EACCES).", "Ask for it, or change the rules."},
		{CodeFileLocked, groupFiles, "Another agent has the path locked (EBUSY); the details name it.", "Wait (polisctl wait), or work on something else."},
		{CodeNotLocked, groupFiles, "The path is not locked, or not by the one who gives it back.", "polisctl locks."},
		{CodeQuota, groupFiles, "A bound is reached: locks of one holder, bytes or files (EDQUOT), calls that wait (EAGAIN); the refusal names it.", "Give back or remove what is not needed."},
		{CodeLockdUnavailable, groupFiles, "No new lock is available (EAGAIN): polisd is away, or first reclaims what was held before its restart.", "Try again in a few seconds."},
		{CodeStaleLock, groupFiles, "A lock whose holder was away for too long, or a lock file of a git that died, was released.", "Nothing; what was written under it is there."},
		{CodeLockBroken, groupFiles, "An administrator took the lock away (polisctl locks break).", "The event names the administrator and the reason."},
		{CodeLockCorrupt, groupFiles, "Locks that were asked for by name could not be read at start, and are lost. The file is kept aside.", "Take them again."},

		{CodeStateCorrupt, groupState, "A state file could not be read. It is kept aside and made anew from worktrees and shims.", "polisctl status lists what was not found again."},
		{CodeStateNotSaved, groupState, "The state cannot be written; changes are refused until it can.", "Is the disk full?"},
		{CodeWorktreeMissing, groupState, "An agent of the state has no worktree any more; it is dropped, what is left of its work is put aside.", "The report of the start names the place."},
		{CodeWorktreeCorrupt, groupState, "An agent's worktree cannot be read by git; the agent is skipped, the others are restored.", "Nothing of it was touched: repair it, then polisctl agents start NAME."},
		{CodeReconcileConflict, groupState, "The state and the file system do not agree about an agent: the file system counts, and a worktree without state is entered with defaults. Of two records of the state, the first counts.", "The report of the start names them."},

		{CodeBadRequest, groupAsking, "The request, or an argument, is wrong; nothing was done.", "The message names it."},
		{CodeInvalidConfig, groupAsking, "A configuration file has a mistake.", "The message has the line; polisd.toml(5)."},
		{CodeForbidden, groupAsking, "The caller may not do this.", "Be root or a member of group polis (members of read_group may only read); for pull requests, the owner of the project."},
		{CodeAlreadyAnswered, groupAsking, "Another person, or another terminal, answered the question first; the details have the answer.", "The first answer counts; polisctl approvals rules lists what is remembered."},
		{CodeNotFound, groupAsking, "There is no such route, branch, remote or commit.", "The message names it."},
		{CodeTooLarge, groupAsking, "A request or an answer is over its bound, or a path is longer than 4096 bytes (ENAMETOOLONG).", "Send less; use a shorter path."},
		{CodeTimeout, groupAsking, "It took too long, or was interrupted; the work may still be going on.", "polisctl status; --timeout gives more time."},
		{CodeUnavailable, groupAsking, "polisd does not run or is not well, or another one has its place.", "systemctl status polisd."},
		{CodeInternal, groupAsking, "Something failed that has no code of its own.", "The log of polisd has details."},
	}
}
