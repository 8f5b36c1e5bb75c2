package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"polis/daemon/rules/approval"
	"polis/daemon/rules/cone"
	"polis/daemon/rules/steps"
	"polis/netbridge/egress"
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// check fills defaults and refuses what cannot be meant; the errors name the
// field, its value and the rule.
func (t *BaseType) check() error {
	bad := func(field string, value any, rule string) error {
		return fmt.Errorf("%s = %q: %s", field, fmt.Sprint(value), rule)
	}
	if p := t.Program; p != "" && (strings.ContainsAny(p, "\x00\n") || filepath.IsAbs(p) && filepath.Clean(p) != p || !filepath.IsAbs(p) && strings.Contains(p, "/")) {
		return bad("program", p, "must be the name of a program or an absolute, clean path")
	}
	for field, line := range map[string]string{"install": t.Install, "login": t.Login} {
		if len(line) > 300 || strings.ContainsFunc(line, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return bad(field, line, "must be one line of at most 300 bytes")
		}
	}
	for field, words := range map[string][]string{"run": t.Run, "interactive": t.Interactive, "acp": t.ACP, "prompt": t.Prompt, "stream.args": t.Stream.Args, "permissions.command": t.Permissions.Command} {
		for i, w := range words {
			if strings.ContainsRune(w, 0) || i == 0 && w == "" {
				return bad(fmt.Sprintf("%s[%d]", field, i), w, "must not be empty or contain a NUL byte")
			}
		}
	}
	if len(t.Prompt) > 0 && !takesPrompt(t.Prompt) {
		return bad("prompt", strings.Join(t.Prompt, " "), "must have \"{prompt}\" in it, where the task goes")
	}
	if err := t.Stream.check(); err != nil {
		return err
	}
	for name, value := range t.Env {
		if !envName.MatchString(name) || strings.ContainsRune(value, 0) {
			return bad("env."+name, value, "must be a variable's name, and a value without NUL bytes")
		}
	}
	for i, name := range t.PassEnv {
		if !envName.MatchString(name) {
			return bad(fmt.Sprintf("pass_env[%d]", i), name, "must be a variable's name")
		}
	}
	for i, h := range t.Hosts {
		if _, err := egress.Parse([]string{h}); err != nil || h == egress.Open || h == egress.None || h == egress.Ask || strings.Contains(h, ":") || h != strings.ToLower(h) {
			return bad(fmt.Sprintf("hosts[%d]", i), h, `must be a host's name in small letters, or "*." and a name`)
		}
	}
	if t.MemoryMB != 0 && (t.MemoryMB < 16 || t.MemoryMB > 1<<20) {
		return bad("memory_mb", t.MemoryMB, "must be from 16 to 1048576")
	}
	for i, m := range t.Mounts {
		if !filepath.IsAbs(m.Source) || !filepath.IsAbs(m.Dest) {
			return bad(fmt.Sprintf("mounts[%d]", i), m.Source+":"+m.Dest, "source and dest must be absolute paths")
		}
	}
	if err := t.checkHome(); err != nil {
		return err
	}
	if err := t.checkAnswers(); err != nil {
		return err
	}
	if err := errors.Join(t.checkGateway(), t.Permissions.check()); err != nil {
		return err
	}
	if _, err := approval.ReadNames(t.Tools); err != nil {
		return err
	}
	if err := checkContext(t.Context); err != nil {
		return err
	}
	if _, err := cone.New(t.Sparse...); err != nil {
		return fmt.Errorf("sparse: %w", err)
	}
	if t.ModelEnv != "" && !envName.MatchString(t.ModelEnv) {
		return bad("model_env", t.ModelEnv, "must be a variable's name")
	}
	return t.Identity.check()
}

func (s Stream) check() error {
	switch formats := steps.Formats(); {
	case s.Format != "" && !slices.Contains(formats, s.Format):
		return fmt.Errorf("stream.format = %q: must be one of %s", s.Format, strings.Join(formats, ", "))
	case s.Format == "" && len(s.Args) > 0:
		return fmt.Errorf("stream.args = %q: stream.format must say what they have the program print", strings.Join(s.Args, " "))
	case takesPrompt(s.Args):
		return fmt.Errorf("stream.args = %q: must not have \"{prompt}\" in it", strings.Join(s.Args, " "))
	}
	return nil
}

// checkHome joins HomeFiles, Credentials and Home; what is named must be below the
// home directory, once, and no file can be where another needs a directory.
func (t *BaseType) checkHome() error {
	all := make([]HomeFile, 0, len(t.HomeFiles)+len(t.Credentials)+len(t.Home))
	for _, p := range t.HomeFiles {
		all = append(all, HomeFile{Path: p})
	}
	for _, p := range t.Credentials {
		all = append(all, HomeFile{Path: p, Mode: HomeCredentials})
	}
	all = append(all, t.Home...)
	for i := range all {
		h := &all[i]
		if h.Mode == "" {
			h.Mode = HomeCopy
		}
		if h.Mode != HomeCopy && h.Mode != HomeCredentials && h.Mode != HomeReadOnly {
			return fmt.Errorf("home %q: mode = %q: must be %q, %q or %q", h.Path, h.Mode, HomeCopy, HomeCredentials, HomeReadOnly)
		}
		if err := checkHomePath("home: path", h.Path); err != nil {
			return err
		}
		for _, o := range all[:i] {
			if within(o.Path, h.Path) || within(h.Path, o.Path) {
				return fmt.Errorf("home: %q and %q cannot both be files", o.Path, h.Path)
			}
		}
	}
	t.HomeFiles, t.Credentials, t.Home = nil, nil, all
	return nil
}

// checkHomePath checks the path of a file below the home directory.
func checkHomePath(field, p string) error {
	if !filepath.IsLocal(p) || filepath.Clean(p) != p || p == "." || len(p) > 1024 || strings.ContainsAny(p, "\x00\n") {
		return fmt.Errorf("%s = %q: must be a clean path below the home directory, without %q", field, p, "..")
	}
	return nil
}

func checkContext(p string) error {
	rest, home := strings.CutPrefix(p, "~/")
	parts := strings.Split(strings.TrimPrefix(p, "/etc/"), "/")
	switch {
	case p == "":
		return nil
	case home:
		return checkHomePath("context", rest)
	case !strings.HasPrefix(p, "/etc/") || filepath.Clean(p) != p || len(parts) < 2 || strings.ContainsAny(p, "\x00\n"):
		return fmt.Errorf("context = %q: must be ~/FILE, or a file in a directory below /etc, such as /etc/NAME/FILE", p)
	}
	return nil
}

func (p *Permissions) check() error {
	switch p.Kind {
	case "", "none":
		if p.File != "" || len(p.Command) > 0 {
			return fmt.Errorf("permissions.kind = %q: must be \"hook\" or \"acp\" where a file or command is named", p.Kind)
		}
	case "hook":
		rest, home := strings.CutPrefix(p.File, "~/")
		if home && (!filepath.IsLocal(rest) || filepath.Clean(rest) != rest) || !home && (!filepath.IsAbs(p.File) || filepath.Clean(p.File) != p.File) {
			return fmt.Errorf("permissions.file = %q: must be an absolute, clean path, or one that begins with ~/", p.File)
		}
	case "acp":
		if len(p.Command) == 0 {
			return fmt.Errorf("permissions.command is empty: kind = \"acp\" needs the command that speaks it")
		}
	default:
		return fmt.Errorf("permissions.kind = %q: must be \"hook\", \"acp\" or \"none\"", p.Kind)
	}
	return nil
}
