package isolation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Flag makes a program that links package doctor a child that does one probe;
// it is followed by the probe's name and an argument.
const Flag = "doctor-probe"

// Answer is what a child prints, as JSON.
type Answer struct {
	Found string `json:"found,omitempty"`
	Err   string `json:"error,omitempty"`
}

// Ask has program do a probe in a child with new namespaces. An error is the
// child's, or says that it could not be started.
func Ask(ctx context.Context, program, probe, arg string, flags uintptr) (string, error) {
	cmd := exec.CommandContext(ctx, program, "--"+Flag, probe, arg) //nolint:forbidigo // our own program, in namespaces that end with it
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
	var a Answer
	if err := json.Unmarshal(stdout.Bytes(), &a); err != nil {
		return "", fmt.Errorf("probe %s: %w", probe, err)
	}
	if a.Err != "" {
		return a.Found, errors.New(a.Err)
	}
	return a.Found, nil
}
