package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/patrol"
)

const (
	// observeTime bounds observing one agent, observers how many are observed at a time.
	observeTime = 2 * time.Second
	observers   = 8
	// lively is how old a heartbeat may be of a shim that lives for certain.
	lively = 20 * time.Second
	// endGrace is how long a program that does not end by itself may take after a TERM.
	endGrace = 10 * time.Second
	// sendSameTime bounds how long a program may take to read what the patrol sends.
	sendSameTime = 5 * time.Second
)

// Living is an agent as the patrol observes it. InitPID is 0 if its shim was not queried: only
// that of an agent that is Running is.
type Living struct {
	patrol.Observed
	Role    string
	InitPID int
	// Reason is why it is in its state.
	Reason string
	// At is when its shim was queried.
	At time.Time
	// Stood is set by the caller of Observe if no process of its sandbox has run since it was measured.
	Stood bool
	// Waiting is what the agent waits for as its shim reports it; nil if it reports nothing.
	Waiting *api.Waiting
	// OwnedRefs are the refs that it made.
	OwnedRefs []string
}

// Observe returns what the shims and the records report of every agent, by name. known is what they
// said before, by agent: a shim is not queried again while that is recent. With nil every shim is.
func (m *Manager) Observe(ctx context.Context, known map[string]Living) []Living {
	m.mu.Lock()
	var as []*Agent
	for _, a := range m.agents {
		as = append(as, a)
	}
	m.mu.Unlock()
	slices.SortFunc(as, func(a, b *Agent) int { return cmp.Compare(a.Name(), b.Name()) })
	out := make([]Living, len(as))
	slots := make(chan struct{}, observers)
	var wg sync.WaitGroup
	for i, a := range as {
		slots <- struct{}{}
		wg.Go(func() { defer func() { <-slots }(); out[i] = m.observe(ctx, a, known) })
	}
	wg.Wait()
	return out
}

// ObserveAgent is Observe of one agent.
func (m *Manager) ObserveAgent(ctx context.Context, name string) (Living, error) {
	a, err := m.lookup(name)
	if err != nil {
		return Living{}, err
	}
	return m.observe(ctx, a, nil), nil
}

func (m *Manager) observe(ctx context.Context, a *Agent, known map[string]Living) Living {
	m.mu.Lock()
	v := Living{Role: a.Kept.Role, Reason: a.Kept.StatusReason, Observed: patrol.Observed{Agent: a.Name(), Workspace: a.WS.Name, Created: a.Kept.CreatedAt, Generation: a.Kept.Generation, Status: a.Kept.Status},
		OwnedRefs: slices.Clone(a.Kept.OwnedRefs)}
	up, between, foreign := a.up, a.coming || a.leaving || a.Kept.Removal != nil, a.foreign
	task := ""
	if a.Kept.InTask {
		task = a.Kept.Task
	}
	m.mu.Unlock()
	switch {
	case between:
		v.Err = errors.New("it is being started, stopped or removed")
		return v
	case foreign:
		v.Err = errors.New("its shim is of a version that this polisd does not understand")
		return v
	}
	ctx, cancel := context.WithTimeout(ctx, observeTime)
	defer cancel()
	if up {
		v.Shim, v.Err = m.shimLives(ctx, a, known != nil)
	}
	if !v.Shim || v.Err != nil || v.Status != api.StatusRunning {
		return v
	}
	if k, ok := known[v.Agent]; ok && k.same(v, task) {
		k.OwnedRefs = v.OwnedRefs
		return k
	}
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		v.Err = err
		return v
	}
	v.At = m.Now()
	v.fill(st)
	if st.Task != "" {
		m.observeTask(a, &v)
	}
	return v
}

// same reports whether what was known is recent, and of the same incarnation. task is the task that has
// not ended: the end of one is in the records.
func (v Living) same(now Living, task string) bool {
	if v.Err != nil || !v.Program || !patrol.Recent(time.Since(v.At), v.Stood) || v.Task != "" && v.Ended == "" && v.Task != task {
		return false
	}
	return v.Workspace == now.Workspace && v.Created.Equal(now.Created) && v.Generation == now.Generation && v.Status == now.Status && v.Role == now.Role
}

// shimLives reports whether an agent's shim lives. Its heartbeat is enough if cheap.
func (m *Manager) shimLives(ctx context.Context, a *Agent, cheap bool) (bool, error) {
	if cheap && m.Watch != nil {
		if age, ok := m.Watch.Beat(a); ok && age < lively {
			return true, nil
		}
	}
	return m.Shims.Alive(ctx, a)
}

// fill takes over a shim's report.
func (v *Living) fill(st wire.Status) {
	v.InitPID, v.Program, v.PID, v.Task = st.InitPID, st.Running, st.MainPID, st.Task
	v.Waiting, v.Progress = st.Waiting, st.Progress
	if st.Waiting != nil {
		v.Waits = v.At
	}
	v.Sample.CPU = time.Duration(st.CPUMicros) * time.Microsecond
	v.Sample.Output, v.Sample.Reads, v.Sample.Writes = st.LogEnd, st.Counters.ReadCount, st.Counters.WriteCount
	v.Sample.Ports = fingerprint(fmt.Sprint(st.Listening, st.ListeningUDP))
	if st.Generation != v.Generation {
		v.Err = errors.New("its shim is of another generation")
	}
}

// fingerprint is a number that differs if texts do, very probably.
func fingerprint(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) //nolint:errcheck // it never fails
	return h.Sum64()
}

// observeTask takes over the state of the program from the record of the task.
func (m *Manager) observeTask(a *Agent, v *Living) {
	t, err := m.records(a).Get(v.Task)
	switch {
	case api.CodeOf(err) == api.CodeNotFound:
		v.Task = "" // its record was dropped: there were many since
	case err != nil:
		v.Err = err
	case t.State == api.TaskEnded && t.Ended != nil:
		v.Ended, v.EndedAt = t.EndedBy, *t.Ended
	}
}

// Reconcile does again what the end of a shim or of a program does, for the agent of this name that was
// added at created, and whose end in this generation was missed.
func (m *Manager) Reconcile(ctx context.Context, name string, created time.Time, gen uint64) error {
	a, err := m.lookup(name)
	if err != nil {
		return err
	}
	if !a.is(created, gen) {
		return errChanged(name)
	}
	alive, err := m.Shims.Alive(ctx, a)
	if err != nil {
		return err
	}
	if !alive {
		m.reapShim(ctx, a, gen)
		return nil
	}
	sh := m.Shims.Dial(name)
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return err
	}
	if st.Generation == gen && !st.Running {
		m.ended(a, st)
	}
	return nil
}

// EndProgram ends the program of a task that has ended. same is called once nothing else can change
// the agent; the program stays if it refuses. Its sandbox and its files stay in any case.
func (m *Manager) EndProgram(ctx context.Context, name string, same func(Living) bool) error {
	a, err := m.find(ctx, name)
	if err != nil {
		return err
	}
	defer a.op.Unlock()
	return m.whileFrozen(ctx, a, same, func(sh Shim) error { return sh.StopMain(ctx, endGrace) })
}

// StopSame stops an agent if same accepts what it is then.
func (m *Manager) StopSame(ctx context.Context, name string, same func(Living) bool) error {
	a, err := m.findFor(ctx, name, verbStop)
	if err != nil {
		return err
	}
	defer a.op.Unlock()
	return m.whileFrozen(ctx, a, same, func(Shim) error { return m.stop(ctx, a) })
}

// SendSame is Send for an agent that same accepts. A program that does not read blocks the agent's other
// operations for sendSameTime.
func (m *Manager) SendSame(ctx context.Context, name string, req api.SendRequest, same func(Living) bool) error {
	if err := checkText(req.Text); err != nil {
		return err
	}
	a, err := m.findFor(ctx, name, verbSend)
	if err != nil {
		return err
	}
	defer a.op.Unlock()
	if !same(m.observe(ctx, a, nil)) {
		return errChanged(name)
	}
	sent, err := m.logSent(a, req.Text, api.TaskSent)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendSameTime)
	defer cancel()
	return m.input(ctx, sent, name, req)
}

// StartSame is Start for the agent of this name that was added at created, and that has not been started
// since generation gen.
func (m *Manager) StartSame(ctx context.Context, name string, created time.Time, gen uint64) error {
	a, err := m.findFor(ctx, name, verbStart)
	if err != nil {
		return err
	}
	defer a.op.Unlock()
	if !a.is(created, gen) {
		return errChanged(name)
	}
	return m.start(ctx, a, false)
}

// RetryTaskSame is RetryTask for the agent that StartSame accepts.
func (m *Manager) RetryTaskSame(ctx context.Context, id string, created time.Time, gen uint64) error {
	_, err := m.retryTask(ctx, id, func(a *Agent) error {
		if !a.is(created, gen) {
			return errChanged(a.Name())
		}
		return nil
	})
	return err
}

// is reports whether the agent was added at created and its last start was the one of generation gen.
// Another agent that has got its name begins with the first generation too.
func (a *Agent) is(created time.Time, gen uint64) bool {
	k := a.Copy()
	return k.CreatedAt.Equal(created) && k.Generation == gen
}

func errChanged(name string) error {
	return api.Errorf(api.CodeBadState, "agent %s is not what it was when the patrol looked: nothing was done", name).
		WithHint("polisctl patrol shows what it is now")
}
