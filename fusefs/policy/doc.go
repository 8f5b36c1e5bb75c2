// Package policy decides what an agent may do with a repository path: the read,
// write, ask, deny and hide rules, compiled once into an immutable Set and
// asked at every gated file system call.
//
// The rules are gitignore-style globs (package glob) with these meanings:
//
//   - hide beats deny beats ask beats write beats read; write implies read.
//   - Naming a directory covers everything below it. Within one list the last
//     pattern that covers a path wins, so "!" negates what came before it.
//   - No read and no write rule: everything is readable and writable.
//     Only write rules: everything is readable. Only read rules: nothing is
//     writable.
//
// A path that no rule declares stays visible (git status compares the
// metadata of every tracked file); its data is refused. A hidden path does
// not exist.
//
// The package also knows the temporary names under which editors and agents
// save (Temps): the decision about such a name is that about its destination.
//
// It does no I/O and holds no lock while a pattern is matched. The only
// mutable thing in a Set is a bounded cache of decisions.
package policy
