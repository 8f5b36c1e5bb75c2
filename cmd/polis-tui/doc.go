// Package screen is the program polis-tui: the screen of "polisctl tui", which checks the arguments
// and replaces itself with it.
//
// It is not part of polisctl because the libraries that draw a terminal would make every verb start
// later. It reports errors in polisctl's name and with polisctl's exit statuses. It decides
// nothing: every rule is the daemon's.
package screen
