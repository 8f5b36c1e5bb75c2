package cage

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
)

// probe starts a program that does nothing.
var probe = sync.OnceValue(func() error {
	cmd := exec.CommandContext(context.Background(), "true") //nolint:forbidigo // a program that does nothing, in a cage
	cmd.Dir, cmd.Env = "/", []string{}
	if err := (&Cage{}).Start(cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: a program that does nothing fails there: %w", ErrUnavailable, err)
	}
	return nil
})

// Probe checks that programs can be confined on this machine; an ErrUnavailable names what is
// missing. The kernel is queried once.
func Probe() error { return probe() }

// Check reports whether a program, found as exec.LookPath finds it, can be started
// in a cage: scripts cannot.
func Check(program string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		return fmt.Errorf("start a program in a cage: %w", err)
	}
	_, err = loaderOf(path)
	return err
}
