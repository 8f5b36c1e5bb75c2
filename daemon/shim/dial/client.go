package dial

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
)

// maxAnswer bounds a shim's answer, in bytes.
const maxAnswer = 8 << 20

// Shim is a client for the API of a shim at a unix socket.
type Shim struct {
	Socket string
	// Timeout bounds a short call (default 10 s).
	Timeout time.Duration
	// Activity, if not nil, wakes the shim while its events are followed.
	Activity *Activity
	// OnReceive, if not nil, is called when Events gets an answer, and for every line of it. A working
	// shim sends a line every 15 seconds.
	OnReceive func()
	// OnMissing, if not nil, is called when nobody listens at the socket, or there is none.
	OnMissing func()
	hc        *http.Client
}

// Close drops idle connections.
func (s *Shim) Close() { s.hc.CloseIdleConnections() }

func (s *Shim) call(ctx context.Context, timeout time.Duration, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := s.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out); err != nil {
		return api.Errorf(api.CodeShimUnavailable, "read the shim's answer: %w", err)
	}
	return nil
}

func (s *Shim) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://shim"+path, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set(wire.VersionHeader, strconv.Itoa(wire.Version))
	resp, err := s.hc.Do(req)
	if err != nil {
		return nil, api.Errorf(api.CodeShimUnavailable, "the agent's shim does not answer: %w", err)
	}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		e := &api.Error{}
		if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(e); err != nil || e.Code == "" {
			return nil, api.Errorf(api.CodeShimUnavailable, "the agent's shim answered %s", resp.Status)
		}
		return nil, e
	}
	return resp, nil
}

// Ping returns nil if the shim answers, with success or an error.
func (s *Shim) Ping(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://shim/v1/ping", nil)
	if err != nil {
		return err
	}
	resp, err := s.hc.Do(req)
	if err != nil {
		return api.Errorf(api.CodeShimUnavailable, "the agent's shim does not answer: %w", err)
	}
	return resp.Body.Close()
}

// Status returns the shim's status.
func (s *Shim) Status(ctx context.Context) (st wire.Status, err error) {
	return st, s.call(ctx, s.Timeout, http.MethodGet, "/v1/status", nil, &st)
}

// Start runs the agent's main command.
func (s *Shim) Start(ctx context.Context, r wire.StartRequest) error {
	return s.call(ctx, s.Timeout, http.MethodPost, "/v1/start", r, nil)
}

// Input writes text to the main command's input, and returns when the command has read it.
func (s *Shim) Input(ctx context.Context, r wire.InputRequest) error {
	return s.call(ctx, s.Timeout, http.MethodPost, "/v1/input", r, nil)
}

// Screen returns the last lines of what the main command's terminal shows. Only for
// shims of wire.ScreenVersion and later.
func (s *Shim) Screen(ctx context.Context, lines int) (out wire.Screen, err error) {
	return out, s.call(ctx, s.Timeout, http.MethodGet, "/v1/screen?lines="+strconv.Itoa(lines), nil, &out)
}

// Steps returns the steps of the main command's task. Only for shims of wire.StepsVersion and
// later.
func (s *Shim) Steps(ctx context.Context) (out wire.Steps, err error) {
	return out, s.call(ctx, s.Timeout, http.MethodGet, "/v1/steps", nil, &out)
}

// Leftovers returns the processes that the last main command left running. With end it ends them
// first. Only for shims of wire.LeftoversVersion and later.
func (s *Shim) Leftovers(ctx context.Context, end bool) (out api.Leftovers, err error) {
	if end {
		return out, s.call(ctx, s.Timeout+time.Minute, http.MethodDelete, "/v1/leftovers", nil, &out)
	}
	return out, s.call(ctx, s.Timeout, http.MethodGet, "/v1/leftovers", nil, &out)
}

// Approvals returns the agent's open questions. Approvals, Approval and Answer need a shim of
// wire.ApprovalsVersion or later.
func (s *Shim) Approvals(ctx context.Context) ([]api.Approval, error) {
	var out struct {
		Approvals []api.Approval `json:"approvals"`
	}
	return out.Approvals, s.call(ctx, s.Timeout, http.MethodGet, "/v1/approvals", nil, &out)
}

// Approval returns one question of the agent.
func (s *Shim) Approval(ctx context.Context, id string) (out api.Approval, err error) {
	return out, s.call(ctx, s.Timeout, http.MethodGet, "/v1/approvals/"+url.PathEscape(id), nil, &out)
}

// Answer answers a question, and returns when the shim has taken the answer.
func (s *Shim) Answer(ctx context.Context, id string, r wire.AnswerRequest) (out wire.Answered, err error) {
	return out, s.call(ctx, s.Timeout, http.MethodPost, "/v1/approvals/"+url.PathEscape(id), r, &out)
}

// StopMain ends the main command: with TERM, and with KILL after the grace period.
func (s *Shim) StopMain(ctx context.Context, grace time.Duration) error {
	return s.call(ctx, grace+s.Timeout, http.MethodPost, "/v1/stop", wire.StopRequest{Grace: setting.Duration(grace)}, nil)
}

// Freeze freezes the processes of the sandbox for a limited time. Only for shims of
// wire.FreezeVersion and later.
func (s *Shim) Freeze(ctx context.Context, r wire.FreezeRequest) error {
	return s.call(ctx, s.Timeout, http.MethodPost, "/v1/freeze", r, nil)
}

// Thaw ends a freeze. Only for shims of wire.FreezeVersion and later.
func (s *Shim) Thaw(ctx context.Context, r wire.ThawRequest) error {
	return s.call(ctx, s.Timeout, http.MethodPost, "/v1/thaw", r, nil)
}

// Set changes the settings of a running agent: all of them or, on an error, none. Only for shims of
// wire.SettingsVersion and later.
func (s *Shim) Set(ctx context.Context, r wire.SettingsRequest) error {
	return s.call(ctx, s.Timeout, http.MethodPost, "/v1/settings", r, nil)
}

// SetModels gives the shim the agent's model services. Only shims of wire.ModelsVersion and later have them.
func (s *Shim) SetModels(ctx context.Context, r wire.Models) error {
	return s.call(ctx, s.Timeout, http.MethodPost, "/v1/models", r, nil)
}

// PauseModel holds back requests to a model service.
func (s *Shim) PauseModel(ctx context.Context, r wire.PauseRequest) error {
	return s.call(ctx, s.Timeout, http.MethodPost, "/v1/models/pause", r, nil)
}

// Replayed returns the result of the requests of a replay. Only shims of wire.RecordVersion and later
// have it.
func (s *Shim) Replayed(ctx context.Context) (r wire.Replayed, err error) {
	err = s.call(ctx, s.Timeout, http.MethodGet, "/v1/models/replay", nil, &r)
	return r, err
}

// AddPort maps a port that the daemon has chosen.
func (s *Shim) AddPort(ctx context.Context, r wire.PortRequest) error {
	return s.call(ctx, s.Timeout, http.MethodPost, "/v1/ports", r, nil)
}

// RemovePort ends a port map.
func (s *Shim) RemovePort(ctx context.Context, protocol string, internal int) error {
	path := "/v1/ports/" + strconv.Itoa(internal)
	if protocol == api.ProtoUDP { // the first shims have only TCP, and no field for the protocol
		path += "?protocol=udp"
	}
	return s.call(ctx, s.Timeout, http.MethodDelete, path, nil, nil)
}

// Why returns the last refusals.
func (s *Shim) Why(ctx context.Context) ([]api.WhyEntry, error) {
	var out struct {
		Why []api.WhyEntry `json:"why"`
	}
	return out.Why, s.call(ctx, s.Timeout, http.MethodGet, "/v1/why", nil, &out)
}

// Changes makes a cut of the set of changed paths. Only for shims of wire.ChangesVersion and later.
func (s *Shim) Changes(ctx context.Context, r wire.ChangesRequest) (out wire.Changes, err error) {
	return out, s.call(ctx, s.Timeout, http.MethodPost, "/v1/changes", r, &out)
}

// follow opens the stream of events. If this process cannot read the agent's meter, it does not let
// the shim pause.
func (s *Shim) follow(ctx context.Context, path string) (resp *http.Response, unwatch func(), err error) {
	nothing := func() {}
	if s.Activity == nil {
		resp, err = s.send(ctx, http.MethodGet, path, nil)
		return resp, nothing, err
	}
	resp, err = s.send(ctx, http.MethodGet, path+"&wakes=1", nil)
	if err != nil {
		return nil, nil, err
	}
	meter := resp.Header.Get(wire.MeterHeader)
	if meter == "" { // an older shim, or one of the host's network
		return resp, nothing, nil
	}
	look := func(ctx context.Context) error {
		return s.call(ctx, s.Timeout, http.MethodPost, "/v1/look", nil, nil)
	}
	if unwatch, err = s.Activity.add(meter, look); err == nil {
		return resp, unwatch, nil
	}
	_ = resp.Body.Close() //nolint:errcheck // it is opened again
	resp, err = s.send(ctx, http.MethodGet, path, nil)
	return resp, nothing, err
}

// Events calls f for each event of the shim with a number above since, until ctx ends or the shim
// does.
func (s *Shim) Events(ctx context.Context, since uint64, f func(api.Event)) error {
	resp, unwatch, err := s.follow(ctx, "/v1/events?since="+strconv.FormatUint(since, 10))
	if err != nil {
		return err
	}
	defer unwatch()
	defer resp.Body.Close()
	received := s.OnReceive
	if received == nil {
		received = func() {}
	}
	received()
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		received()
		if len(sc.Bytes()) == 0 {
			continue // keep-alive
		}
		var e api.Event
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil {
			return api.Errorf(api.CodeShimUnavailable, "read the shim's events: %w", err)
		}
		f(e)
	}
	if err := sc.Err(); err != nil {
		return api.Errorf(api.CodeShimUnavailable, "read the shim's events: %w", err)
	}
	return io.EOF
}
