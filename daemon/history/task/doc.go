// Package task owns the records of what agents were asked to do: how a task
// begins, that it ends once, and how its result reads (all of it pure), and the
// files in which the records are kept, one for each task. A shim saves beside them that its
// agent ended a task itself, for a polisd that is away.
//
// It never starts, stops or merges anything, and knows no agent beyond a name. A
// record is replaced as a whole, so a crash leaves the old or the new one.
//
// Lock order: Store.mu, and nothing below it.
package task
