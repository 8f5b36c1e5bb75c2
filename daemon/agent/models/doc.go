// Package models decides which model services an agent uses, and reads their keys: what polisd sends
// to the gateway in an agent's shim (package gateway), and which variables and files lead the agent's
// program to it. Keys are in memory only; they are read when an agent starts and on each reload. A key that a
// command prints is kept until its time is over, a reload, or a refusal of the service.
//
// It connects to nothing, and starts no program but the administrator's commands that print keys.
//
// A [BudgetKeeper] grants the agents of a role their parts of a budget that they share. A grant is an amount that an
// agent's use of the day may reach; the agent's shim holds it, also while polisd is away. The grants, and what those agents
// used that have none, never exceed the budget. They are in a file before an agent gets one, and after an agent has lost
// one. It knows no model service: use is a number.
//
// Lock order: commandKey.mu, then Source.mu. BudgetKeeper.mu is a leaf; it is held during requests to shims, which are
// bounded in time.
package models
