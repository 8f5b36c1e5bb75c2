// Package models decides which model services an agent uses, and reads their keys: what polisd sends
// to the gateway in an agent's shim (package gateway), and which variables and files lead the agent's
// program to it. Keys are in memory only; they are read when an agent starts and on each reload. A key that a
// command prints is kept until its time is over, a reload, or a refusal of the service.
//
// It connects to nothing, and starts no program but the administrator's commands that print keys.
//
// Lock order: commandKey.mu, then Source.mu.
package models
