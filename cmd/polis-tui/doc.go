// Command polis-tui is the screen of "polisctl tui", which checks the arguments
// and replaces itself with it.
//
// It is a program of its own because the libraries that draw a terminal take
// 50 ms to initialise, which every verb of polisctl would pay. It reports
// errors in polisctl's name and with polisctl's exit statuses. It decides
// nothing: every rule is the daemon's.
package main
