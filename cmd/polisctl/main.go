package main

import (
	"os"
	"time"
)

// version is set by the build: -ldflags "-X main.version=...".
var version = "devel"

func main() {
	os.Exit(run(&app{
		stdin:  os.Stdin,
		stdout: os.Stdout,
		stderr: os.Stderr,
		getenv: os.Getenv,
		now:    time.Now,
	}, os.Args[1:]))
}
