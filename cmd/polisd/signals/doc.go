// Package signals catches the signals of polisd from the earliest moment that a Go program can: while its packages
// are initialised. The runtime ignores SIGUSR1 before that, so a stop for an upgrade would be lost; SIGTERM ends the
// process. It imports only what it needs, and its path sorts before those of polisd's other packages, so that it is
// initialised before them. This is the one package that starts something when it is imported.
package signals
