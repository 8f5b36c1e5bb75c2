// Package daemon is the composition of polisd: it makes every part, connects them to one another,
// and stops them in the right order. It makes no decision: the rules are in packages agent, merge,
// config, placement, home, environment and the others of their layer, and the kernel is in the
// leaves.
package daemon
