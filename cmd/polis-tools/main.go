// Polis-tools is polis-tui and polis-adapter in one file, which its own name selects as in busybox(1):
// two programs of their own would be 7 MB larger, because both have the client of polisd and Go's
// runtime. The other names are symbolic links to it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	adapter "polis/cmd/polis-adapter"
	screen "polis/cmd/polis-tui"
)

// version is set by the build: -ldflags "-X main.version=...".
var version = "devel"

func main() { os.Exit(run(os.Args)) }

// run starts the program that the first argument names.
func run(args []string) int {
	name := ""
	if len(args) > 0 {
		name, args = filepath.Base(args[0]), args[1:]
	}
	switch name {
	case "polis-tui":
		return screen.Run(args, version)
	case "polis-adapter":
		return adapter.Run(args, version)
	}
	fmt.Fprintf(os.Stderr, "polis-tools: %q is no program of polis; it is started as polis-tui by polisctl tui, or as polis-adapter by polisctl mcp and polisctl acp\n", name)
	return 2
}
