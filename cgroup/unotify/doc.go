// Package unotify answers the system calls that seccomp filters ask a
// supervisor about (seccomp_unotify(2)), and always with the same: EPERM. It
// says which calls those were, so that somebody can be told.
//
// It never has a call go on, gives out no descriptors, and never looks into the
// memory of a process: what it knows of a call is its number and its registers.
// A filter whose listener is gone has the kernel refuse the call (ENOSYS), so
// there is no way in which a call is let through for lack of an answer.
//
// One goroutine, that of Run, owns every listener. It knows neither libseccomp nor
// what a call is called.
package unotify
