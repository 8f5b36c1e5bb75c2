// Package daemon is the hall of polisd: it makes every part, introduces them
// to one another, and ends them in the right order. Nothing is decided here;
// rules are in agent, merge and config, the kernel in the leaves.
package daemon
