package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"polis/cmd/internal/configfile"
	"polis/daemon/api"
	"polis/daemon/http/client"
	"polis/internal/tomledit"
)

// defaultConfig is the configuration of polisd if it was started with no other one.
const defaultConfig = "/etc/polis/polisd.toml"

// reloadTime bounds the check of the changed configuration.
const reloadTime = 30 * time.Second

// configFile is the configuration file that polisd uses, or the one of --config.
func configFile(ctx context.Context, c *client.Client, given string) (configfile.File, error) {
	f := configfile.File{Path: given, Check: checkConfiguration}
	if given != "" {
		var err error
		f.Path, err = absolute("config", given)
		return f, err
	}
	st, err := c.Status(ctx)
	if err != nil && api.CodeOf(err) != api.CodeUnavailable {
		return f, err
	}
	if f.Path = st.ConfigFile; f.Path == "" { // it does not run
		f.Path = defaultConfig
	}
	return f, nil
}

// entry is a key of polisd.toml with its value, as TOML has it.
type entry struct{ table, key, value string }

func (e entry) name() string { return strings.TrimPrefix(e.table+"."+e.key, ".") }

// in returns the text of a configuration file with the entry in it.
func (e entry) in(file, text string) (string, error) {
	out, err := tomledit.Replace(text, e.table, e.key, e.value)
	if err != nil {
		return "", api.Errorf(api.CodeInvalidConfig, "%s cannot be set in %s: %w", e.name(), file, err).
			WithHint("write it into the file by hand: %s = %s", e.name(), e.value)
	}
	return out, nil
}

var goodKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}(\.[A-Za-z0-9_-]{1,100}){0,7}$`)

// parseEntry reads KEY and VALUE. A value that is none of TOML is a string.
func parseEntry(key, value string) (entry, error) {
	if !goodKey.MatchString(key) {
		return entry{}, usagef("KEY %q is not valid: names of letters, digits, '_' and '-', with dots between them, such as git.hooks", api.Shorten(clean(key), 80))
	}
	if err := checkText("VALUE", value, maxText); err != nil && value != "" {
		return entry{}, err
	}
	e := entry{key: key, value: value}
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		e.table, e.key = key[:i], key[i+1:]
	}
	if strings.ContainsAny(value, "\r\n") {
		return entry{}, usagef("VALUE has several lines: write it as one line")
	}
	if tomledit.Differs("", "v = "+value, "", "v", value) != nil || strings.Contains(value, "#") && !strings.ContainsAny(value[:1], "\"'[{") {
		e.value = tomledit.Quote(value)
	}
	return e, nil
}

// cannotChange converts an error of the configuration file. again is the command line that root runs.
func cannotChange(path string, err error, again string) error {
	var known *api.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, configfile.ErrBusy):
		return api.Errorf(api.CodeTimeout, "change %s: %w", path, err)
	case errors.Is(err, configfile.ErrForeign):
		return api.Errorf(api.CodeForbidden, "root does not change %s: %w", path, err).
			WithHint("the directories above the configuration must belong to root, and nobody else may write there; or edit the file with an editor")
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return api.Errorf(api.CodeForbidden, "only root can change %s", path).WithHint("%s", again)
	}
	return api.Errorf(api.CodeInvalidConfig, "change the configuration: %w", err)
}

// reloadCommand is what makes polisd read its configuration again; "" if it does not run.
func reloadCommand(ctx context.Context, c *client.Client) string {
	st, err := c.Status(ctx)
	if err != nil {
		return ""
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		return "sudo systemctl reload polisd"
	}
	return fmt.Sprintf("sudo kill -HUP %d", st.PID)
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
