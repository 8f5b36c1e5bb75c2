// Package leftover knows the processes that an agent's command left running when it
// ended: a daemon, a watcher, a hub. Whose child they are says nothing, as what
// daemonizes gets another parent: they are the processes of the agent's control group
// that began while the command ran, except those of open shells and commands of a
// person, and what they start afterwards.
//
// A process is its number and its start time (proc_pid_stat(5)), and is signalled by
// a pidfd, so that a number that was given out again hits nobody. It never reads more
// than a bounded number of processes, and never signals one outside of the group.
package leftover
