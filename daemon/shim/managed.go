package shim

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"polis/cgroup/sandbox"
	"polis/daemon/shim/wire"
)

// Claude Code reads the administrator's settings from here, before all others, and nothing in the
// sandbox can change them (Claude Code, "Settings files").
const (
	claudeManaged = "/etc/claude-code"
	claudeDropIns = "managed-settings.d"
	claudeOwn     = "polis.json"
)

// hookTimeout bounds the hook of a program, in seconds. It is longer than the hook waits for an
// answer: a hook that is killed for its time does not stop the tool.
const hookTimeout = 7200

// maxManaged bounds a file of the host's managed settings, in bytes.
const maxManaged = 1 << 20

// hookCommand runs the hook and fails closed: status 2 is the only one that stops the tool.
func hookCommand(program string) string {
	return wire.ToolPath + " hook " + program + " || { echo 'polis: this call could not be approved' >&2; exit 2; }"
}

// managedMounts makes the managed configuration that has an agent's program ask before it uses a
// tool, beside what the host's administrator has there.
func (s *Shim) managedMounts() ([]sandbox.Mount, error) {
	if s.Spec.Hook != wire.HookClaude {
		return nil, nil
	}
	dir := filepath.Join(s.insideDir(), "managed")
	if err := os.MkdirAll(filepath.Join(dir, claudeDropIns), 0o755); err != nil {
		return nil, err
	}
	if err := copyManaged(claudeManaged, dir); err != nil {
		return nil, err
	}
	hook := []map[string]any{{"matcher": "*", "hooks": []map[string]any{{"type": "command", "command": hookCommand(wire.HookClaude), "timeout": hookTimeout}}}}
	text, err := json.MarshalIndent(map[string]any{"hooks": map[string]any{"PreToolUse": hook, "PermissionRequest": hook}}, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := replaceFile(filepath.Join(dir, claudeDropIns, claudeOwn), string(text)+"\n"); err != nil {
		return nil, err
	}
	return []sandbox.Mount{{Source: dir, Dest: claudeManaged, ReadOnly: true}}, nil
}

// copyManaged copies the host's own managed settings, which the mount hides.
func copyManaged(from, to string) error {
	for _, sub := range []string{".", claudeDropIns} {
		entries, err := os.ReadDir(filepath.Join(from, sub))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !info.Mode().IsRegular() || info.Size() > maxManaged || strings.HasPrefix(e.Name(), ".") {
				continue
			}
			b, err := os.ReadFile(filepath.Join(from, sub, e.Name()))
			if err != nil {
				return err
			}
			if err := replaceFile(filepath.Join(to, sub, e.Name()), string(b)); err != nil {
				return err
			}
		}
	}
	return nil
}
