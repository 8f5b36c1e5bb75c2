// Package leftover finds the processes that an agent's command left running when it ended, such as
// a daemon or a watcher. The parent of a process does not show this, because a process that
// daemonizes gets another parent. Leftovers are the processes of the agent's control group that
// began while the command ran, and what they start afterwards. Processes of a person's open shells
// and commands are none.
//
// A process is identified by its number and its start time (proc_pid_stat(5)). It is signalled by a
// pidfd, so that a reused number hits no other process. The package reads a bounded number of
// processes, and never signals one outside of the group.
package leftover
