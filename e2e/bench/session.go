package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"polis/e2e/bench/work"
)

// patience bounds every wait; it is no assertion about speed.
const patience = 5 * time.Minute

// session is a worker in an agent's sandbox. It is not safe for concurrent use.
type session struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	dec    *json.Decoder
	stderr bytes.Buffer
	ended  chan error
}

// start runs the worker in an agent by polisctl.
func (b *bed) start(agent string, env []string) (*session, error) {
	args := []string{"agents", "exec", "--no-tty"}
	for _, e := range env {
		args = append(args, "--env", e)
	}
	s := &session{cmd: exec.Command(filepath.Join(b.bin, "polisctl"), append(args, agent, "--", sandboxDir+"/worker", "worker")...), ended: make(chan error, 1)}
	s.cmd.Env = append(os.Environ(), "POLIS_SOCKET="+b.path("run", "polisd.sock"))
	s.cmd.Dir, s.cmd.Stderr = "/", &s.stderr
	// An interrupt at the terminal is for this program, which then ends the session.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// A pipe made here: Wait would close one of exec's under the reader.
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	s.cmd.Stdout, s.dec = w, json.NewDecoder(out)
	if err := s.cmd.Start(); err != nil {
		out.Close()
		return nil, fmt.Errorf("start a worker in %s: %w", agent, err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	return s, nil
}

// do sends a request and waits for the answer.
func (s *session) do(ctx context.Context, r work.Request) (work.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// The end of the process ends the read below.
	stop := context.AfterFunc(ctx, func() { _ = s.cmd.Process.Kill() })
	defer stop()
	var reply work.Reply
	err := json.NewEncoder(s.in).Encode(r)
	if err == nil {
		err = s.dec.Decode(&reply)
	}
	if err != nil {
		return reply, fmt.Errorf("%s: %w", r.Op, errors.Join(err, context.Cause(ctx)))
	}
	if reply.Err != "" {
		return reply, errors.New(reply.Err)
	}
	return reply, nil
}

// close ends the worker by ending its input.
func (s *session) close() error {
	s.in.Close()
	select {
	case err := <-s.ended:
		if err != nil {
			return fmt.Errorf("worker: %w: %s", err, s.stderr.Bytes())
		}
		return nil
	case <-time.After(10 * time.Second):
		_ = s.cmd.Process.Kill() // its end is what the next line waits for
		return fmt.Errorf("a worker did not end: %w", <-s.ended)
	}
}
