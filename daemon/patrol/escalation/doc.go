// Package escalation notifies people of the open cases of the patrol (seed 004): it runs a command,
// posts to a webhook, or writes to the journal, as [patrol.escalation] in polisd.toml says.
//
// It owns the text of such a message, and when an open case is sent again: package patrol decides
// whether one is due (polis/daemon/patrol.Due), and a case that no target took is tried again every
// five minutes. A case counts as sent if one target took it.
//
// It never opens or resolves a case.
package escalation
