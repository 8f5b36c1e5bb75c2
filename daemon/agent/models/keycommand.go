package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"polis/daemon/config"
	"polis/daemon/gateway/provider"
	"polis/daemon/git"
	"polis/daemon/host/command"
	"polis/daemon/host/ownedpath"
)

const (
	// keyTime bounds a command that prints a key.
	keyTime = 10 * time.Second
	// keyPause is how long the result of a command that failed is used, and the least age of a key that a
	// refusal of the service makes old.
	keyPause = 30 * time.Second
	// keyRetry is when a command that failed runs again.
	keyRetry = time.Minute
	// keyPath is the PATH of the commands.
	keyPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// commandKey is what the command of one service printed. A service has one command at a time, so that
// agents that start at once wait for one.
type commandKey struct {
	mu     sync.Mutex
	source config.KeySource
	key    string
	at     time.Time // of the key
	tried  time.Time
	err    error
	timer  *time.Timer

	old   atomic.Bool  // the next use runs the command again
	since atomic.Int64 // when key was printed, in nanoseconds
}

// fromCommand returns the key that the command of a service prints: the present one, or that of a new
// run if it is old. If a run fails, the key before it remains, with an error.
func (s *Source) fromCommand(ctx context.Context, service string, from config.KeySource) (string, error) {
	s.mu.Lock()
	if s.commands == nil {
		s.commands = map[string]*commandKey{}
	}
	k := s.commands[service]
	if k == nil { // at most one for each service of the configuration
		k = &commandKey{}
		s.commands[service] = k
	}
	s.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Equal(k.source.KeyCommand, from.KeyCommand) || k.source.KeyUser != from.KeyUser {
		k.key, k.at, k.tried, k.err = "", time.Time{}, time.Time{}, nil
	}
	k.source = from
	now, refresh := s.Now(), from.Refresh()
	if k.key != "" && !k.old.Load() && now.Sub(k.at) < refresh {
		return k.key, nil
	}
	if k.err != nil && now.Sub(k.tried) < keyPause {
		return k.key, k.err
	}
	k.old.Store(false) // a reload while it runs counts
	key, err := s.runKey(ctx, from)
	k.tried, k.err = s.Now(), err
	s.renewAfter(k, map[bool]time.Duration{true: min(refresh, keyRetry), false: refresh}[err != nil])
	if err != nil {
		return k.key, err
	}
	k.key, k.at = key, s.Now()
	k.since.Store(k.at.UnixNano())
	return key, nil
}

// renewAfter has the agents get a new key after a time. k.mu is held.
func (s *Source) renewAfter(k *commandKey, after time.Duration) {
	if k.timer != nil {
		k.timer.Stop()
	}
	s.mu.Lock()
	expired := s.expiry()
	s.mu.Unlock()
	k.timer = time.AfterFunc(after, func() {
		k.old.Store(true)
		select {
		case expired <- struct{}{}:
		default: // the agents get all keys again
		}
	})
}

// runKey runs a command that prints a key. No error has a part of what it printed.
func (s *Source) runKey(ctx context.Context, from config.KeySource) (string, error) {
	argv := from.KeyCommand
	program, err := ownedpath.Command(argv[0], s.Owner, keyPath)
	if err != nil {
		return "", fmt.Errorf("key_command: %w", err)
	}
	u, err := user.Lookup(cmp.Or(from.KeyUser, config.DefaultKeyUser))
	if err != nil {
		return "", fmt.Errorf("key_command: %w", err)
	}
	uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uerr, gerr); err != nil {
		return "", fmt.Errorf("key_command: user %s: %w", u.Username, err)
	}
	cred, err := git.Credential(uint32(uid), uint32(gid))
	if err != nil {
		return "", fmt.Errorf("key_command: user %s: polisd is not root", u.Username)
	}
	out, complete, err := command.Command{Program: program, Argv: argv, User: cred, Timeout: keyTime, MaxOutput: maxKey,
		Env: []string{"PATH=" + keyPath, "HOME=" + u.HomeDir, "USER=" + u.Username, "LANG=C.UTF-8"}}.Run(ctx)
	if err != nil {
		return "", fmt.Errorf("key_command: %s: %w", argv[0], err)
	}
	key := strings.TrimSpace(string(out))
	if key == "" || !complete {
		return "", fmt.Errorf("key_command: %s must print a key, and nothing else", argv[0])
	}
	if err := provider.CheckKey(key); err != nil {
		return "", fmt.Errorf("key_command: %s: %w", argv[0], err)
	}
	return key, nil
}

// Renew has the commands of all services run again when a key is used next: on a reload.
func (s *Source) Renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.Config()
	for name := range s.files {
		if _, model := c.Models[name]; !model {
			if _, ok := c.Services[name]; !ok {
				delete(s.files, name)
			}
		}
	}
	for name, k := range s.commands {
		k.old.Store(true)
		if len(c.Models[name].KeyCommand)+len(c.Services[name].KeyCommand) == 0 {
			delete(s.commands, name)
		}
	}
}

// Refused records that a service refused its key. It reports whether the next use gets another one: not
// if its file has the same one, or if that of a command is so new that the service refuses something else.
func (s *Source) Refused(service string) bool {
	s.mu.Lock()
	k := s.commands[service]
	s.mu.Unlock()
	return s.changed(service) || k != nil && s.Now().Sub(time.Unix(0, k.since.Load())) >= keyPause && k.old.CompareAndSwap(false, true)
}

// Expired is sent to when a key has become old, so that the agents get another one.
func (s *Source) Expired() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expiry()
}

// expiry is the channel. s.mu is held.
func (s *Source) expiry() chan struct{} {
	if s.expired == nil {
		s.expired = make(chan struct{}, 1)
	}
	return s.expired
}
