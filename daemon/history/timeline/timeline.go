package timeline

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/cas"
	"polis/daemon/history/snapshot"
	"polis/daemon/store"
)

// Limits bound a store.
type Limits struct {
	// AgentBytes bounds the files of one snapshot, and what the snapshots of one agent add together.
	AgentBytes int64
	// StoreBytes bounds the store.
	StoreBytes int64
	// TTL is the age at which a snapshot that no user made is removed; 0: never.
	TTL time.Duration
	// Keep is how many of these an agent has; 0: no limit.
	Keep int
}

const (
	// maxFiles bounds the entries of one snapshot.
	maxFiles = 1_000_000
	// maxPerAgent bounds the snapshots of one agent.
	maxPerAgent = 500
	maxNote     = 500
	// maxNames bounds the paths in an answer.
	maxNames = 100
	idBytes  = 5
)

// Timeline has the snapshots of one workspace. Assign the fields, then use it. It is safe for
// concurrent use.
type Timeline struct {
	// Dir is made with the first snapshot; only root may search it.
	Dir       string
	Workspace string
	Host      Host
	Limits    func() Limits
	// Publish reports an event; nil reports none.
	Publish func(api.Event)
	// Receipt records an event that is not published: a checkpoint. Nil records none.
	Receipt func(api.Event)
	// Settle returns when what was given to Receipt is durable, or cannot be written, or ctx ends. Nil: it is at once.
	Settle func(context.Context)
	Log    *slog.Logger
	Now    func() time.Time

	mu      sync.Mutex
	objects *cas.Store // nil until it is opened; it stays when it is closed
	closed  bool
	records map[string]record
	// unread are records that cannot be read: nothing is collected while there are any.
	unread []string
	// pins counts for each snapshot the calls that use it: it is not removed to make room.
	pins map[string]int
	// ahead are the readings ahead in progress, by agent; each is closed at its end.
	ahead map[string]*ahead
	// receipts are those to record, in order, while recording is true.
	receipts  []record
	recording bool
	// given are the checkpoints whose receipts may not be durable yet.
	given    []string
	recorded sync.WaitGroup
	// faults are why agents have no new checkpoints.
	faults map[string]*api.Error
}

// record is the file of a snapshot.
type record struct {
	Version int `json:"version"`
	api.Snapshot
	series
	// InUse: it was mounted in a sandbox, and may still be. It is not removed while Host.Mounted.
	InUse bool `json:"in_use,omitempty"`
}

const recordVersion = 1

func (t *Timeline) recordsDir() string          { return filepath.Join(t.Dir, "records") }
func (t *Timeline) recordFile(id string) string { return filepath.Join(t.recordsDir(), id+".json") }

// open opens the store and reads the records, once. With make it makes a store that is missing;
// without, a missing one is nil without an error.
func (t *Timeline) open(ctx context.Context, make bool) (*cas.Store, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objects != nil {
		return t.objects, nil
	}
	if !make {
		if _, err := os.Lstat(t.recordsDir()); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	s, err := cas.Open(ctx, t.Dir)
	if err == nil {
		err = os.MkdirAll(t.recordsDir(), 0o700)
	}
	if err == nil {
		err = t.read()
	}
	if err != nil {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
		return nil, api.Errorf(api.CodeInternal, "snapshots of workspace %s: %w", t.Workspace, err).WithHint("nothing was changed; is the disk full, or damaged?")
	}
	t.objects = s
	if err := t.recordMissing(); err != nil {
		t.Log.Warn("receipts that a crash left out not recorded", "workspace", t.Workspace, "err", err)
	}
	return s, nil
}

// read reads the records. t.mu is held.
func (t *Timeline) read() error {
	entries, err := os.ReadDir(t.recordsDir())
	if err != nil {
		return err
	}
	t.records, t.unread = map[string]record{}, nil
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if strings.HasPrefix(e.Name(), ".") { // an interrupted write
			if err := os.Remove(filepath.Join(t.recordsDir(), e.Name())); err != nil {
				return err
			}
			continue
		}
		var r record
		err := errors.New("the name is not that of a record")
		if ok {
			err = store.ReadJSON(t.recordFile(id), &r, t.Now())
		}
		if err == nil && (r.ID != id || r.Version != recordVersion) {
			err = fmt.Errorf("it is of snapshot %q, version %d", api.Shorten(r.ID, 32), r.Version)
		}
		if err != nil {
			t.unread = append(t.unread, e.Name())
			t.Log.Error("record of a snapshot not read; no stored content is removed until it is repaired or deleted", "workspace", t.Workspace, "path", filepath.Join(t.recordsDir(), e.Name()), "err", err)
			continue
		}
		t.records[id] = r
	}
	return nil
}

// Close closes the store, when the checkpoints that there are have their receipts. Calls in progress fail.
func (t *Timeline) Close() error {
	t.recorded.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objects == nil || t.closed {
		return nil
	}
	t.closed = true
	return t.objects.Close()
}

// List returns the snapshots, oldest first; only those of an agent if it is not "".
func (t *Timeline) List(ctx context.Context, agent string) ([]api.Snapshot, error) {
	if s, err := t.open(ctx, false); s == nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []api.Snapshot
	for _, r := range t.records {
		if !r.Loose && (agent == "" || r.Agent == agent) {
			out = append(out, r.Snapshot)
		}
	}
	slices.SortFunc(out, func(a, b api.Snapshot) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID)) })
	return out, nil
}

// Find returns one snapshot; false if there is none of this id.
func (t *Timeline) Find(ctx context.Context, id string) (api.Snapshot, bool, error) {
	if s, err := t.open(ctx, false); s == nil {
		return api.Snapshot{}, false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.records[id]
	return r.Snapshot, ok, nil
}

// Describe is Find of a snapshot that exists, with the hashes and totals that a checkpoint does not
// compute when it is made.
func (t *Timeline) Describe(ctx context.Context, id string) (api.Snapshot, error) {
	r, m, err := t.get(ctx, id)
	if err == nil && r.Hash == "" {
		r.Hash, r.Metadata = m.Content().String(), m.Metadata().String()
		r.Files, r.Links, r.Dirs, r.Bytes = m.Totals()
	}
	return r, err
}

// NotFound returns the error for a snapshot that does not exist.
func NotFound(id string) error {
	return api.Errorf(api.CodeNotFound, "there is no snapshot %q", api.Shorten(id, 32)).WithHint("polisctl snapshot list")
}

// get is Find with an error, and the entries.
func (t *Timeline) get(ctx context.Context, id string) (api.Snapshot, *snapshot.Manifest, error) {
	r, ok, err := t.Find(ctx, id)
	if err == nil && !ok {
		err = NotFound(id)
	}
	if err != nil {
		return r, nil, err
	}
	m, err := t.manifest(id)
	return r, m, err
}

// manifest returns the state of a snapshot.
func (t *Timeline) manifest(id string) (*snapshot.Manifest, error) {
	t.mu.Lock()
	r := t.records[id]
	t.mu.Unlock()
	m, err := snapshot.Load(t.objects, r.Manifest, r.Delta)
	if err != nil {
		return nil, corrupt(id, err)
	}
	return m, nil
}

// corrupt returns the error for content that cannot be used.
func corrupt(id string, err error) error {
	return api.Errorf(api.CodeSnapshotCorrupt, "snapshot %s: %w", id, err).WithHint("polisctl snapshot verify %s names what is damaged; the agent's files are unchanged", id)
}

// newID returns an id that no snapshot has. t.mu is held.
func (t *Timeline) newID() (string, error) {
	for {
		b := make([]byte, idBytes)
		if _, err := rand.Read(b); err != nil {
			return "", err
		}
		id := "s" + hex.EncodeToString(b)
		if _, taken := t.records[id]; !taken {
			return id, nil
		}
	}
}

func (t *Timeline) publish(e api.Event) {
	if t.Publish != nil {
		t.Publish(e)
	}
}

// Remove deletes a snapshot. What only it needs is removed by Collect.
func (t *Timeline) Remove(ctx context.Context, id string) (api.Snapshot, error) {
	r, ok, err := t.Find(ctx, id)
	if err != nil {
		return r, err
	}
	if !ok {
		return r, NotFound(id)
	}
	if err := t.forget(id); err != nil {
		return r, err
	}
	t.publish(api.Event{Type: api.EventSnapshotRemoved, Agent: r.Agent, Message: fmt.Sprintf("snapshot %s of agent %s was removed", r.ID, r.Agent), Data: map[string]any{"snapshot": r.ID, "workspace": t.Workspace, "hash": r.Hash}})
	return r, nil
}

func (t *Timeline) forget(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.forgetLocked(id)
}

// forgetLocked is forget; t.mu is held.
func (t *Timeline) forgetLocked(id string) error {
	if err := os.Remove(t.recordFile(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.CodeStateNotSaved, "remove snapshot %s: %w", id, err)
	}
	delete(t.records, id)
	return nil
}
