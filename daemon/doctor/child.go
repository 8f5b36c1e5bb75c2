package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ChildFlag makes the program that links this package a child of doctor: it
// is followed by the name of a probe. The program calls Child then.
const ChildFlag = "doctor-probe"

// probes are what a child can be asked to do. Each leaves what it made to the
// end of its namespaces.
var probes = map[string]func(ctx context.Context, arg string) (string, error){
	"nothing": func(context.Context, string) (string, error) { return "", nil },
	"view":    probeView,
	"network": probeNetwork,
}

// answer is what a child prints.
type answer struct {
	Found string `json:"found,omitempty"`
	Err   string `json:"error,omitempty"`
}

// Child does one probe and prints the answer; the program ends then.
func Child(ctx context.Context, out io.Writer, args []string) error {
	if len(args) != 2 || probes[args[0]] == nil {
		return errors.New("doctor: no such probe")
	}
	var a answer
	found, err := probes[args[0]](ctx, args[1])
	a.Found = found
	if err != nil {
		a.Err = err.Error()
	}
	return json.NewEncoder(out).Encode(a)
}

// ask runs a probe in a child with new namespaces. An error is the child's, or
// says that it could not be started.
func ask(ctx context.Context, probe, arg string, flags uintptr) (string, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "--"+ChildFlag, probe, arg) //nolint:forbidigo // our own program, in namespaces that end with it
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: flags &^ unix.CLONE_NEWPID, Cloneflags: flags & unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if line := strings.TrimSpace(stderr.String()); line != "" {
			return "", fmt.Errorf("%w: %s", err, line)
		}
		return "", err
	}
	var a answer
	if err := json.Unmarshal(stdout.Bytes(), &a); err != nil {
		return "", fmt.Errorf("probe %s: %w", probe, err)
	}
	if a.Err != "" {
		return a.Found, errors.New(a.Err)
	}
	return a.Found, nil
}
