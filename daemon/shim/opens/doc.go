// Package opens records what the processes of an agent open and change: who, with which program, which
// path. It is the auditor of a view, and keeps the records in memory until polisd has stored them.
//
// The list is bounded in entries and bytes. When it is full, further records are counted and dropped or,
// if the agent must be recorded, the operations are refused. Equal records that nobody has fetched
// become one with a count. A record is numbered when it is fetched, and kept until the next request
// confirms it, so that a polisd that dies in between gets it again.
//
// Lock order: one mutex, which is a leaf.
package opens
