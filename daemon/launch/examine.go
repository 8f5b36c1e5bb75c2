package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"time"

	"polis/daemon/api"
)

// Examine runs polis-shim to examine the machine: only it links the code of views, sandboxes and
// networks.
func (s *Shims) Examine(ctx context.Context) (rep api.DoctorReport, err error) {
	args := []string{"--doctor"}
	if s.ConfigFile != "" {
		args = append(args, "--config", s.ConfigFile)
	}
	cmd := exec.CommandContext(ctx, s.program, args...) //nolint:forbidigo // our own program; it ends with its answer
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return rep, api.Errorf(api.CodeInternal, "examine the machine: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &rep); err != nil {
		return rep, api.Errorf(api.CodeInternal, "examine the machine: %w", err)
	}
	return rep, nil
}
