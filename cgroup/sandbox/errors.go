package sandbox

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNamespace: namespaces, mounts or another part of the isolation could not be set up.
	ErrNamespace = errors.New("namespaces could not be set up")
	// ErrCgroup: the control group could not be created or limited.
	ErrCgroup = errors.New("control group could not be set up")
	// ErrNoSeccomp: this binary was built without the tag "seccomp". It comes wrapped in
	// [ErrNamespace].
	ErrNoSeccomp = errors.New("built without seccomp: refusing to run agents unprotected")
	// ErrConfig: a [Config] or [Process] is invalid.
	ErrConfig = errors.New("bad sandbox configuration")
	// ErrNotFound: the program to execute, or its working directory, is not in the sandbox or not
	// accessible there.
	ErrNotFound = errors.New("cannot execute")
	// ErrGone: the sandbox has ended.
	ErrGone = errors.New("the sandbox has ended")
)

// classify finds the sentinel for an error of libcontainer's start. libcontainer has no types for
// that; every message about a control group contains the word.
func classify(op string, err error) error {
	kind := ErrNamespace
	if strings.Contains(err.Error(), "cgroup") {
		kind = ErrCgroup
	}
	return fmt.Errorf("%s: %w: %w", op, kind, err)
}
