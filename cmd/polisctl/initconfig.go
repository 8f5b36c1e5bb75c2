package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/client"
	"polis/internal/tomledit"
)

// configEdit is the change of polisd.toml that init makes.
type configEdit struct {
	file string
	// sets are the keys to set, in order.
	sets []configKey
	text string
	mode fs.FileMode
	// kept names keys that the file sets already.
	kept []string
}

type configKey struct{ table, key, value string }

// configuration returns the change for the answers. A check command belongs to the workspace, whose name is
// known later.
func (a *app) configuration(ans initAnswers) *configEdit {
	e := &configEdit{file: ans.config}
	if ans.egress != "" && ans.egress != "open" {
		value := strconv.Quote(ans.egress)
		if names := strings.Split(ans.egress, ","); len(names) > 1 || strings.Contains(ans.egress, ".") {
			for i, n := range names {
				names[i] = strconv.Quote(strings.TrimSpace(n))
			}
			value = "[" + strings.Join(names, ", ") + "]"
		}
		e.sets = append(e.sets, configKey{"network", "egress", value})
	}
	if ans.check != "" {
		e.sets = append(e.sets, configKey{"merge.workspaces.", "check", strconv.Quote(ans.check)})
	}
	return e
}

// prepare reads the file, so that a missing permission is found before anything is changed.
func (e *configEdit) prepare() error {
	if len(e.sets) == 0 {
		return nil
	}
	b, err := os.ReadFile(e.file)
	switch fi, serr := os.Stat(e.file); {
	case errors.Is(err, fs.ErrNotExist):
		e.mode = 0o644
	case err != nil || serr != nil:
		return api.Errorf(api.CodeForbidden, "read the configuration: %w", errors.Join(err, serr)).WithHint("run: sudo polisctl init")
	default:
		e.mode = fi.Mode().Perm()
	}
	e.text = string(b)
	if err := unix.Access(filepath.Dir(e.file), unix.W_OK); err != nil {
		return api.Errorf(api.CodeForbidden, "only root can change %s", e.file).WithHint("run: sudo polisctl init")
	}
	return nil
}

// workspace completes the keys that name the workspace.
func (e *configEdit) workspace(name string) {
	for i := range e.sets {
		if e.sets[i].table == "merge.workspaces." {
			e.sets[i].table += name
		}
	}
}

// write writes the changed file, after polisd has checked it, and makes polisd read it. It returns the keys that
// it set. A key that the file sets already stays as it is.
func (e *configEdit) write(ctx context.Context, c *client.Client) ([]string, error) {
	changed := []string{}
	text := e.text
	for _, s := range e.sets {
		next, err := tomledit.Set(text, s.table, s.key, s.value)
		name := s.table + "." + s.key
		switch {
		case errors.Is(err, tomledit.ErrSet):
			e.kept = append(e.kept, name+" is set already in "+e.file+", and was not changed")
			continue
		case err != nil:
			return nil, api.Errorf(api.CodeInvalidConfig, "change %s: %w", e.file, err).WithHint("write into it by hand: [%s] %s = %s", s.table, s.key, s.value)
		}
		text, changed = next, append(changed, name+" = "+s.value)
	}
	if len(changed) == 0 {
		return changed, nil
	}
	tmp := e.file + ".new"
	if err := writeSynced(tmp, text, e.mode); err != nil {
		return nil, errors.Join(api.Errorf(api.CodeInternal, "write the configuration: %w", err), removeIfExists(tmp))
	}
	if err := checkConfiguration(ctx, tmp); err != nil {
		return nil, errors.Join(err, removeIfExists(tmp))
	}
	if err := os.Rename(tmp, e.file); err != nil {
		return nil, errors.Join(api.Errorf(api.CodeInternal, "write the configuration: %w", err), removeIfExists(tmp))
	}
	st, err := c.Status(ctx)
	if err == nil {
		err = unix.Kill(st.PID, unix.SIGHUP) // as systemctl reload does
	}
	if err != nil {
		return nil, api.Errorf(api.CodeInternal, "the configuration is written, and polisd has not read it: %w", err).WithHint("systemctl reload polisd")
	}
	return changed, nil
}

func writeSynced(path, text string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}

func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// checkConfiguration has polisd check a file.
func checkConfiguration(ctx context.Context, file string) error {
	program := "/usr/sbin/polisd"
	if self, err := os.Executable(); err == nil {
		for _, p := range []string{filepath.Join(filepath.Dir(self), "polisd"), filepath.Join(filepath.Dir(self), "../sbin/polisd")} {
			if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() {
				program = p
				break
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, reloadTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--check", "--config", file) //nolint:forbidigo // our own program; it only reads
	out, err := cmd.CombinedOutput()
	if err != nil {
		return api.Errorf(api.CodeInvalidConfig, "polisd refuses the configuration: %s", strings.TrimSpace(string(out)))
	}
	return nil
}
