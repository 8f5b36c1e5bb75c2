// Package daemon is the composition of polisd: it makes every part, connects them to one another,
// and stops them in the right order. It makes no decision: rules are in agent, merge and config,
// the kernel in the leaves.
package daemon
