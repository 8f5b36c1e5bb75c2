// Package sharedbudget grants the agents of a role their parts of a budget for model services that they share. A grant is
// an amount that an agent's use of the day may reach; the agent's shim holds it, also while polisd is away. The grants, and
// what those agents used that have none, never exceed the budget. They are in a file before an agent gets one, and after
// an agent has lost one. It knows no model service: use is a number.
//
// Lock order: Keeper.mu, then nothing. It is held during requests to shims, which are bounded in time.
package sharedbudget
