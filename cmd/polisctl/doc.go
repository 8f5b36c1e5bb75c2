// Polisctl is the command line of polis.
//
// It checks arguments, asks polisd through package client, and prints the
// answer for people or as JSON. It owns the terminal while a command of an
// agent is attached to it and gives it back however it ends. It decides
// nothing: every rule is the daemon's, and what is checked here is checked
// only to say sooner and more clearly what is wrong.
//
// One file holds one verb or one group of verbs; exit.go holds the one table
// of exit statuses.
package main
