package foreign

import (
	"encoding/json"
	"fmt"
	"strings"
)

// sandboxSettings are those of sandbox-runtime, which Claude Code has as "sandbox".
type sandboxSettings struct {
	Network struct {
		AllowedDomains    []string `json:"allowedDomains"`
		DeniedDomains     []string `json:"deniedDomains"`
		AllowUnixSockets  []string `json:"allowUnixSockets"`
		AllowLocalBinding *bool    `json:"allowLocalBinding"`
	} `json:"network"`
	Filesystem struct {
		DenyRead   []string `json:"denyRead"`
		AllowWrite []string `json:"allowWrite"`
		DenyWrite  []string `json:"denyWrite"`
	} `json:"filesystem"`
}

const role = "roles.adopted"

func (s sandboxSettings) settings(prefix string, add func(Setting)) {
	key := func(k string) string { return prefix + k }
	if d := bounded(s.Network.AllowedDomains); len(d) > 0 {
		add(Setting{Key: key("network.allowedDomains"), Value: strings.Join(d, ", "), Options: []string{"--egress", strings.Join(d, ",")}, Config: config(role+".network", "egress", d)})
	}
	if d := bounded(s.Network.DeniedDomains); len(d) > 0 {
		add(Setting{Key: key("network.deniedDomains"), Value: strings.Join(d, ", "), Note: "polis has no list of names that are refused: list those that are allowed (egress)"})
	}
	if d := bounded(s.Network.AllowUnixSockets); len(d) > 0 {
		add(Setting{Key: key("network.allowUnixSockets"), Value: strings.Join(d, ", "), Note: "the host's sockets do not exist in the sandbox; [sandbox] extra_mounts can add one"})
	}
	if b := s.Network.AllowLocalBinding; b != nil {
		add(Setting{Key: key("network.allowLocalBinding"), Value: fmt.Sprint(*b), Note: "an agent can always listen: its 127.0.0.1 is its own"})
	}
	paths := func(name, rule string, list []string) {
		mapped, other := projectPaths(bounded(list))
		if len(mapped) > 0 {
			var options []string
			for _, p := range mapped {
				options = append(options, "--"+rule, p)
			}
			add(Setting{Key: key(name), Value: strings.Join(mapped, ", "), Options: options, Config: config(role, rule, mapped)})
		}
		if len(other) > 0 {
			add(Setting{Key: key(name), Value: strings.Join(other, ", "), Note: "the home and the rest of the host are not in the sandbox, except /usr, /opt and /etc, which are read-only"})
		}
	}
	paths("filesystem.denyRead", "deny", s.Filesystem.DenyRead)
	paths("filesystem.allowWrite", "write", s.Filesystem.AllowWrite)
	if d, other := projectPaths(bounded(s.Filesystem.DenyWrite)); len(d)+len(other) > 0 {
		add(Setting{Key: key("filesystem.denyWrite"), Value: strings.Join(append(d, other...), ", "), Note: "polis allows what \"write\" lists: list the paths that may be written, instead of those that may not"})
	}
}

// projectPaths splits paths into globs of the project and those outside of it.
func projectPaths(list []string) (project, other []string) {
	for _, p := range list {
		switch {
		case strings.HasPrefix(p, "~"), strings.HasPrefix(p, "/"), strings.HasPrefix(p, ".."):
			other = append(other, p)
		case p == "." || p == "./":
			project = append(project, "**")
		default:
			project = append(project, strings.TrimPrefix(p, "./"))
		}
	}
	return project, other
}

// sandboxRuntime reads the settings of sandbox-runtime (srt).
func sandboxRuntime(_ string, doc []byte, add func(Setting)) error {
	var s sandboxSettings
	if err := json.Unmarshal(doc, &s); err != nil {
		return err
	}
	s.settings("", add)
	return nil
}

// claude reads the permissions and the sandbox of Claude Code's settings.
func claude(_ string, doc []byte, add func(Setting)) error {
	var c struct {
		Permissions map[string]json.RawMessage `json:"permissions"`
		Sandbox     *sandboxSettings           `json:"sandbox"`
	}
	if err := json.Unmarshal(doc, &c); err != nil {
		return err
	}
	if c.Sandbox != nil {
		c.Sandbox.settings("sandbox.", add)
	}
	for _, key := range []string{"deny", "ask", "allow"} {
		var rules []string
		if c.Permissions[key] == nil {
			continue
		}
		if err := json.Unmarshal(c.Permissions[key], &rules); err != nil {
			return fmt.Errorf("permissions.%s: %w", key, err)
		}
		for _, r := range bounded(rules) {
			add(permission(key, r))
		}
	}
	return nil
}

// lists are the keys of [roles.NAME.tools].
var lists = map[string]string{"allow": "auto_approve", "ask": "ask", "deny": "auto_deny"}

// permission maps one rule, such as Bash(npm run test:*) or Read(./.env).
func permission(list, rule string) Setting {
	s := Setting{Key: "permissions." + list, Value: rule}
	tool, arg, ok := strings.Cut(strings.TrimSuffix(rule, ")"), "(")
	switch {
	case ok && tool == "Read" && list == "deny":
		if p, other := projectPaths([]string{arg}); len(other) == 0 {
			s.Options, s.Config = []string{"--deny", p[0]}, config(role, "deny", p)
			return s
		}
	case ok && tool == "Bash":
		s.Config = config(role+".tools", lists[list], []string{"shell(" + strings.ReplaceAll(arg, ":*", " *") + ")"})
		return s
	case !ok && tool == "Bash":
		s.Config = config(role+".tools", lists[list], []string{"shell"})
		return s
	case !ok && (tool == "WebFetch" || tool == "WebSearch"):
		s.Config = config(role+".tools", lists[list], []string{"net"})
		return s
	case ok && (tool == "Edit" || tool == "Write") && list != "deny":
		if p, other := projectPaths([]string{arg}); len(other) == 0 {
			s.Config = config(role+".tools", lists[list], []string{"edit(" + p[0] + ")"})
			return s
		}
	}
	s.Note = "polis has no rule for it"
	return s
}
