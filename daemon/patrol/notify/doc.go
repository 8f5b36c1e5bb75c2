// Package notify sends a person what the person must see, to the places that the administrator has configured: a
// question of an agent, what people wait for (a task has ended, a check has failed), or a finding of the patrol.
//
// It owns the bounds of such a command. Its user is never root, its standard input is one event as
// JSON, and nothing that an agent wrote is among its arguments. It has a deadline, its output is
// bounded, and its process group ends with it. A Notifier runs one at a time, with a pause between
// two, once for each key, from a queue that is bounded: what is dropped is counted.
//
// [Happenings] decides which events are sent by [notify] of the configuration, to [Targets]. A [Questions] sends
// each new question of an agent once, unless it was answered before its turn. Neither retries. Send never blocks.
//
// A [Desktop] shows messages on the desktops of users, each user's by a goroutine that it owns, so that a session
// that does not answer delays no other target and no other user. Such a session is left alone for a minute. It owns the
// count of the messages that nobody saw.
//
// An [Escalator] notifies people of the open cases of the patrol (seed 004) as [patrol.escalation] says. It owns the
// text of such a message, and when an open case is sent again: package patrol decides whether one is due, and a case
// that no target took is tried again every five minutes. A case counts as sent if one target took it. It never opens
// or resolves a case.
//
// Lock order: Notifier.mu or Desktop.mu, never both; neither is held while a command runs or a message is made.
package notify
