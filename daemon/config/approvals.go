package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
)

// Approvals is the [approvals] table.
type Approvals struct {
	// Notify is a command with its arguments that is run for a new question; empty: none is.
	Notify []string `toml:"notify"`
	// NotifyPause is the shortest time between two runs, NotifyTimeout bounds one.
	NotifyPause   setting.Duration `toml:"notify_pause"`
	NotifyTimeout setting.Duration `toml:"notify_timeout"`
}

func defaultApprovals() Approvals {
	return Approvals{NotifyPause: setting.Duration(5 * time.Second), NotifyTimeout: setting.Duration(30 * time.Second)}
}

// Bounds of a command in the configuration.
const (
	maxWords = 64
	maxWord  = 4096 // bytes
)

func (c *Config) checkApprovals() error {
	a := c.Approvals
	if err := checkCommand(a.Notify); err != nil {
		return api.Errorf(api.CodeInvalidConfig, "approvals.notify = %q: %w", api.Shorten(strings.Join(a.Notify, " "), 64), err)
	}
	if d := time.Duration(a.NotifyPause); d < 0 || d > 24*time.Hour {
		return api.Errorf(api.CodeInvalidConfig, "approvals.notify_pause = %q: must be from 0s to 24h", d)
	}
	if d := time.Duration(a.NotifyTimeout); d < time.Second || d > 10*time.Minute {
		return api.Errorf(api.CodeInvalidConfig, "approvals.notify_timeout = %q: must be from 1s to 10m", d)
	}
	return nil
}

// checkCommand checks a program and its arguments; none at all are allowed.
func checkCommand(argv []string) error {
	if len(argv) == 0 {
		return nil
	}
	if p := argv[0]; !filepath.IsAbs(p) || filepath.Clean(p) != p {
		return errors.New("must begin with the clean absolute path of a program")
	}
	if len(argv) > maxWords {
		return fmt.Errorf("must have at most %d words", maxWords)
	}
	for _, word := range argv {
		if len(word) > maxWord || strings.ContainsRune(word, 0) {
			return fmt.Errorf("must have words of at most %d bytes without NUL", maxWord)
		}
	}
	return nil
}
