package sandbox

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNamespace says that namespaces, mounts or what else the isolation is
	// made of could not be set up.
	ErrNamespace = errors.New("namespaces could not be set up")
	// ErrCgroup says that the control group could not be made or limited.
	ErrCgroup = errors.New("control group could not be set up")
	// ErrNoSeccomp says that this binary was built without the tag "seccomp".
	// It comes wrapped in [ErrNamespace].
	ErrNoSeccomp = errors.New("built without seccomp: refusing to run agents unprotected")
	// ErrConfig says that a [Config] or [Process] makes no sense.
	ErrConfig = errors.New("bad sandbox configuration")
	// ErrNotFound says that the program to execute, or its working directory,
	// is not in the sandbox or not accessible there.
	ErrNotFound = errors.New("cannot execute")
	// ErrGone says that the sandbox has ended.
	ErrGone = errors.New("the sandbox has ended")
)

// classify says whose fault an error of libcontainer's start is. It has no
// types for that; every message about a group has the word in it.
func classify(op string, err error) error {
	kind := ErrNamespace
	if strings.Contains(err.Error(), "cgroup") {
		kind = ErrCgroup
	}
	return fmt.Errorf("%s: %w: %w", op, kind, err)
}
