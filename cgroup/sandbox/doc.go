// Package sandbox runs an agent's processes isolated from the host: own mount, pid, ipc, uts, network and cgroup namespaces, the host's programs
// read-only, no root, no capabilities, no new privileges, a list of allowed
// system calls, and limits. It is the only package that knows libcontainer,
// and with it cgo.
//
// The program that imports it executes itself again as the first half of every
// process in the sandbox: its main function must call [Main] before
// anything else. The same binary, seen in the sandbox as /.polis/polis-init,
// is the sandbox's process 1; that part is C (init.go), runs before the Go
// runtime exists and costs about a megabyte.
//
// Process 1 ends when the process that made the sandbox ends, however it ends,
// and the kernel then kills everything inside: no sandbox outlives the view it
// works in. [Cleanup] removes what such an end leaves on the host. If the sandbox
// shares the host's process namespace (see [Shared]), process 1 kills the others
// itself, through the control group, and the creator reaps orphans.
//
// The sources of mounts are resolved by their paths, as root. The caller opens those that another user
// could exchange, and the sandbox mounts what is open (see [Mount]).
//
// The package does not make the network namespace it is given, mounts no view,
// decides no policy, and never runs a process on the host. Built without the
// tag "seccomp" it refuses to create a sandbox at all.
//
// Lock order: Sandbox.mu is a leaf; libcontainer's own lock is taken without it.
package sandbox
