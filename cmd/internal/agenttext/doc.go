// Package agenttext describes agents for people, in the same words in the tables of polisctl and on the screen of
// polis-tui: what an agent waits for, which agents come first in a list. It starts nothing, and reads nothing.
package agenttext
