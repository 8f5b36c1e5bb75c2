// Package unotify is a supervisor of seccomp filters (seccomp_unotify(2)). It
// answers every system call that a filter refers to it with EPERM, and reports
// the call, so that it can be audited.
//
// It never lets a call continue, injects no descriptors, and never reads the
// memory of a process: it knows a call by its number and its registers. If a
// filter's listener is closed the kernel refuses the call (ENOSYS), so no call
// passes for lack of an answer.
//
// One goroutine, that of Run, owns every listener. The package knows neither
// libseccomp nor the names of calls.
package unotify
