// Package hook knows the hooks of agents' programs: what a program reads as its administrator's
// configuration so that it calls a command before each tool, what it gives to that command, and
// what it makes of the command's output.
//
// It is pure. It decides nothing: package approval does. Every format fails closed: what cannot be
// read is an error, and the command that the configuration names ends with a status that stops the
// tool.
package hook
