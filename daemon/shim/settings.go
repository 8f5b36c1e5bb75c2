package shim

import (
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"reflect"
	"time"

	"golang.org/x/sys/unix"

	"polis/cgroup"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/fusefs/policy"
)

// live contains the agent's present settings: the spec's, until they are changed.
type live struct {
	settings wire.Settings
	changing chan struct{} // holds a token while they are changed
}

func newLive(sp *wire.Spec) live {
	return live{settings: sp.Settings, changing: make(chan struct{}, 1)}
}

// settings returns the present settings.
func (s *Shim) settings() wire.Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live.settings
}

func limitsOf(v wire.Settings) cgroup.Limits {
	return cgroup.Limits{MemoryBytes: v.MemoryBytes, Pids: v.Pids, CPUWeight: v.CPUWeight, CPUPercent: v.CPUPercent, IOWeight: v.IOWeight}
}

func compile(p api.Policy, temps []string) (*policy.Set, error) {
	return policy.Compile(policy.Rules{Read: p.Read, Write: p.Write, Ask: p.Ask, Deny: p.Deny, Hide: p.Hide, Temp: temps})
}

// rules returns the rules that apply under these settings: without the lists read and write only while what
// the agent uses is recorded.
func (s *Shim) rules(v wire.Settings) api.Policy {
	if v.Record && s.opens != nil {
		return v.Policy.Recorded()
	}
	return v.Policy
}

func (s *Shim) handleSettings(w http.ResponseWriter, r *http.Request) error {
	var req wire.SettingsRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	select {
	case s.live.changing <- struct{}{}:
		defer func() { <-s.live.changing }()
	case <-r.Context().Done():
		return api.Errorf(api.CodeTimeout, "settings of agent %s: others are being set", s.Spec.Agent)
	}
	if err := s.apply(req); err != nil {
		return err
	}
	return writeJSON(w, struct{}{})
}

// apply applies all of the settings or, with an error, none.
func (s *Shim) apply(req wire.SettingsRequest) error {
	old, now := s.settings(), req.Settings
	if reflect.DeepEqual(old, now) {
		return nil
	}
	rules, before := s.rules(now), s.rules(old)
	set, err := compile(rules, s.Spec.TempNames)
	if err != nil {
		return api.Errorf(api.CodeBadRequest, "%w", err)
	}
	tools, err := s.compileTools(now)
	if err != nil {
		return err
	}
	if limitsOf(now) != limitsOf(old) {
		if err := s.limit(now, old, req.Force); err != nil {
			return err
		}
	}
	if err := s.setEgress(old, now); err != nil {
		return errors.Join(err, s.setLimits(limitsOf(old)))
	}
	if err := s.setConnections(old, now); err != nil {
		return errors.Join(err, s.setLimits(limitsOf(old)), s.setEgress(now, old))
	}
	if err := s.setHostPorts(old, now); err != nil {
		return errors.Join(err, s.setLimits(limitsOf(old)), s.setEgress(now, old), s.setConnections(now, old))
	}
	if err := s.writeContext(now); err != nil {
		s.Log.Error("text for the agent's model not written", "err", err) // it is no part of any rule
	}
	if !reflect.DeepEqual(rules, before) {
		if err := s.writePolicy(rules); err != nil {
			return errors.Join(api.Errorf(api.CodeInternal, "write the agent's policy file: %w", err), s.setLimits(limitsOf(old)), s.setEgress(now, old), s.setConnections(now, old), s.setHostPorts(now, old))
		}
		// Every later operation is decided by the new rules. Then the kernel drops what it cached
		// under the previous ones.
		s.views.guard.SetPolicy(set)
		s.invalidate()
		s.snapshotRulesChanged()
	}
	s.vars.Store(&now.Vars)
	s.toolRules.Store(tools)
	s.setBreakers(now.Breakers)
	s.disk.setLimit(bounds{bytes: now.DiskBytes, files: now.DiskFiles})
	s.recording.Store(now.Record)
	s.mu.Lock()
	s.live.settings = now
	s.mu.Unlock()
	if !reflect.DeepEqual(now.MemoryAsk, old.MemoryAsk) || now.MemoryBytes != old.MemoryBytes {
		s.askMemory(now.MemoryAsk, now.MemoryBytes)
	}
	s.Log.Info("settings were changed", "memory_bytes", now.MemoryBytes, "pids", now.Pids, "rules", !reflect.DeepEqual(rules, before))
	return nil
}

// limit sets limits. On an error it restores the previous ones.
func (s *Shim) limit(now, old wire.Settings, force bool) error {
	if now.MemoryBytes < old.MemoryBytes && !force {
		need, err := s.sandbox.Group().MemoryNeed()
		if err != nil {
			return api.Errorf(api.CodeCgroupFailed, "limit agent %s: %w", s.Spec.Agent, err)
		}
		if int64(need) > now.MemoryBytes {
			return s.tooSmall(int64(need), now)
		}
	}
	err := s.setLimits(limitsOf(now))
	if errors.Is(err, unix.EBUSY) && force {
		// v1 kills no process for a new limit, v2 does.
		if err = s.sandbox.Signal(unix.SIGKILL); err == nil {
			err = s.shrink(now)
		}
	}
	if err == nil {
		return nil
	}
	back := s.setLimits(limitsOf(old))
	if errors.Is(err, unix.EBUSY) {
		need, _ := s.sandbox.Group().MemoryNeed() //nolint:errcheck // only for the text
		return errors.Join(s.tooSmall(int64(need), now), back)
	}
	var missing *cgroup.ControllerError
	code := api.CodeCgroupFailed
	if errors.As(err, &missing) {
		code = api.CodeBadRequest
	}
	return errors.Join(api.Errorf(code, "limit agent %s: %w", s.Spec.Agent, err), back)
}

// shrink retries the limits until the killed processes have released their memory.
func (s *Shim) shrink(now wire.Settings) error {
	var err error
	for range 100 {
		if err = s.setLimits(limitsOf(now)); !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-s.ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
	return err
}

func (s *Shim) tooSmall(need int64, now wire.Settings) error {
	const mb = 1 << 20
	return api.Errorf(api.CodeLimitBelowUse, "agent %s uses %d MB of memory that cannot be reclaimed: more than the new limit of %d MB", s.Spec.Agent, (need+mb-1)/mb, now.MemoryBytes/mb).
		With("used_bytes", need).With("limit_bytes", now.MemoryBytes).WithHint("stop some of what it runs, choose a higher limit, or use --force, which kills processes until the rest fits")
}

// writePolicy writes the file with the agent's rules.
func (s *Shim) writePolicy(p api.Policy) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(s.insideDir(), "policy"), string(text)+"\n")
}
