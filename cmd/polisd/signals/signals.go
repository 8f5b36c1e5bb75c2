package signals

import (
	"os"
	"os/signal"
	"syscall"
)

var caught = catch()

func catch() chan os.Signal {
	c := make(chan os.Signal, 8)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1)
	return c
}

// Caught receives the signals of polisd, also those that have arrived before the call.
func Caught() <-chan os.Signal { return caught }

// Release leaves the signals to their default actions.
func Release() { signal.Stop(caught) }
