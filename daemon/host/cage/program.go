package cage

import (
	"debug/elf"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxLoader bounds the name of a loader, as the kernel does (PATH_MAX).
const maxLoader = 4096

// loaderOf is the dynamic loader an executable names (PT_INTERP of elf(5)); the kernel executes
// it, so it must be allowed too. It is empty for a program that needs none. A script is rejected:
// its interpreter would run any program.
func loaderOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("start a program in a cage: %w", err)
	}
	defer f.Close()
	e, err := elf.NewFile(f)
	if err != nil {
		return "", fmt.Errorf("start a program in a cage: %s is no ELF executable, and scripts cannot be confined: %w", path, err)
	}
	for _, p := range e.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		name, err := io.ReadAll(io.LimitReader(p.Open(), maxLoader))
		if err != nil {
			return "", fmt.Errorf("start a program in a cage: read the loader of %s: %w", path, err)
		}
		return strings.TrimRight(string(name), "\x00"), nil
	}
	return "", nil
}
