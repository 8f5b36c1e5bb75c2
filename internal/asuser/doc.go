// Package asuser calls a function with the file system identity of another user.
//
// It owns the thread on which that happens: setfsuid(2), setfsgid(2) and setgroups(2) act on one thread, and the kernel
// takes CAP_DAC_OVERRIDE and the other capabilities of file systems from it. So root's own daemon can work in a
// directory that its owner exchanges meanwhile, and reaches no more than that owner does. It starts no program and
// knows no workspace.
package asuser
