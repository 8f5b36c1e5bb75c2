// Package models decides which model services an agent uses, and reads their keys: what polisd sends
// to the gateway in an agent's shim (package gateway), and which variables and files lead the agent's
// program to it. Keys are in memory only; they are read when an agent starts and on each reload.
//
// It connects to nothing, and starts no program.
//
// Lock order: Source.mu, then nothing.
package models
