package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"polis/cmd/internal/configfile"
	"polis/daemon/api"
	"polis/daemon/http/client"
	"polis/internal/tomledit"
)

// configEdit is the change of polisd.toml that init makes.
type configEdit struct {
	file configfile.File
	// sets are the keys to set, in order.
	sets []entry
	// kept names keys that the file sets already.
	kept []string
	// forbidden: only root can make the change.
	forbidden bool
}

// newConfigEdit returns the change for the answers, and finds out whether the caller may make it, before anything is changed.
func newConfigEdit(ctx context.Context, c *client.Client, ans initAnswers) (*configEdit, error) {
	e := &configEdit{sets: entries(ans)}
	if len(e.sets) == 0 {
		return e, nil
	}
	var err error
	if e.file, err = configFile(ctx, c, ans.config); err != nil {
		return nil, err
	}
	switch err := e.file.Writable(); {
	case errors.Is(err, fs.ErrPermission):
		e.forbidden = true
	case err != nil:
		return nil, cannotChange(e.file.Path, err, "")
	}
	return e, nil
}

// entries are the keys for the answers. A check command belongs to the workspace, whose name is known later.
func entries(ans initAnswers) (out []entry) {
	if ans.egress != "" && ans.egress != "open" {
		value := tomledit.Quote(ans.egress)
		if names := strings.Split(ans.egress, ","); len(names) > 1 || strings.Contains(ans.egress, ".") {
			for i, n := range names {
				names[i] = tomledit.Quote(strings.TrimSpace(n))
			}
			value = "[" + strings.Join(names, ", ") + "]"
		}
		out = append(out, entry{"network", "egress", value})
	}
	if ans.check != "" {
		out = append(out, entry{ofWorkspace, "check", tomledit.Quote(ans.check)})
	}
	return out
}

// ofWorkspace stands for the table of the workspace.
const ofWorkspace = "merge.workspaces."

// workspace completes the keys that name the workspace.
func (e *configEdit) workspace(name string) {
	for i := range e.sets {
		if e.sets[i].table == ofWorkspace {
			e.sets[i].table += name
		}
	}
}

// needed reports whether the file lacks one of the keys, as far as the caller may read it.
func (e *configEdit) needed() bool {
	text, err := e.file.Read()
	if err != nil {
		return true
	}
	for _, s := range e.sets {
		if _, has, err := tomledit.Get(text, s.table, s.key); err != nil || !has {
			return true
		}
	}
	return false
}

// keep notes a key that the file sets already.
func (e *configEdit) keep(s entry) {
	e.kept = append(e.kept, s.name()+" is set already in "+e.file.Path+", and was not changed: polisctl config set changes it")
}

// write writes the changed file, after polisd has checked it, and makes polisd read it. It returns the keys that
// it set. A key that the file sets already stays as it is.
func (e *configEdit) write(ctx context.Context, c *client.Client) ([]string, error) {
	changed := []string{}
	if e.forbidden {
		for _, s := range e.sets {
			e.keep(s)
		}
	}
	if len(e.sets) == 0 || e.forbidden {
		return changed, nil
	}
	err := e.file.Edit(ctx, func(text string) (string, error) {
		for _, s := range e.sets {
			if _, has, err := tomledit.Get(text, s.table, s.key); err != nil {
				return "", api.Errorf(api.CodeInvalidConfig, "read %s: %w", e.file.Path, err)
			} else if has {
				e.keep(s)
				continue
			}
			var err error
			if text, err = s.in(e.file.Path, text); err != nil {
				return "", err
			}
			changed = append(changed, s.name()+" = "+s.value)
		}
		return text, nil
	})
	if err != nil {
		return nil, cannotChange(e.file.Path, err, "")
	}
	if len(changed) == 0 {
		return changed, nil
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
