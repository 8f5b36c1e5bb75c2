// Package daemon is the composition of polisd: it makes every part, connects them to one another,
// and stops them in the right order. The rules are in packages agent, merge, config, placement, home,
// environment and the others of their layer, and the kernel is in the leaves. A test of package
// e2e/arch bounds what a function of this package decides.
package daemon
