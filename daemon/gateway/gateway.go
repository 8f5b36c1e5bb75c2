package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/semaphore"

	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
	"polis/daemon/gateway/budget"
	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/raise"
	"polis/daemon/gateway/rawconn"
	"polis/daemon/gateway/recording"
)

// Bounds of one agent's endpoint.
const (
	maxConns    = 256      // connections
	maxRequests = 64       // requests at a time
	maxBody     = 32 << 20 // bytes of a request
	maxBodies   = 64 << 20 // bytes of all requests that are being read or sent
	maxAnswers  = 32 << 20 // bytes of all answers that are held until their usage is read
	maxHeader   = 64 << 10 // bytes of a request's header
	headerTime  = 10 * time.Second
	bodyTime    = time.Minute
	drainTime   = 2 * time.Second // for the rest of a body that is refused
	idleTime    = 2 * time.Minute
	writeTime   = 2 * time.Minute  // without progress
	maxPause    = time.Minute      // that a request is held back
	maxTurn     = 10 * time.Second // from the end of a pause to the agent's turn
	headersTime = 10 * time.Minute // until a service answers
	silenceTime = 10 * time.Minute // of an answer that has begun
)

// Work is what a request counts for.
type Work struct {
	// Task is the ID of the task whose budget it uses; "" if it is of none.
	Task string
	// Over: the task has ended, and what it left running sends the request.
	Over bool
}

// Gateway is the endpoint of one agent. Set the fields, then call Set and Serve; Close ends it.
type Gateway struct {
	// Ledger has what the agent has used.
	Ledger *ledger.Ledger
	// Work returns what a request counts for: from is the agent's end of its connection. The zero value is what the
	// agent works on now.
	Work func(from netip.AddrPort) Work
	// Reached is called with the state of a budget that has reached budget.Warn or 100 percent, once
	// each for a task and a day. It must not block.
	Reached func(budget.State)
	// Ask asks a person to raise a budget that is spent to a value, and waits for the answer. It returns what the person
	// raises it to, or 0. With an error nobody was asked.
	Ask func(ctx context.Context, st budget.State, to float64) (raised float64, err error)
	// Stop is called when a budget is spent that ends the agent's work, and no answer is open. It must not
	// block.
	Stop func(budget.State)
	// ShareWanted has the agent granted its next part of the budget that its role shares, by Share. ShareRaised has that
	// budget raised, as a person decided. They must not block.
	ShareWanted func()
	ShareRaised func(st budget.State, to float64)
	// Raises has the bounds that a person raised; nil: there are none.
	Raises *raise.Store
	// Limited is called when a service has asked for a pause. It must not block.
	Limited func(service string, until time.Time)
	// Rekeyed is called when the key of a service was replaced. It must not block.
	Rekeyed func(service string)
	// KeyRefused is called when a service has answered 401 to its key, at most once a minute for each. It
	// must not block.
	KeyRefused func(service string)
	// Uncounted is called when the ledger cannot be written, once until it can again. It must not block.
	Uncounted func(error)
	// Called is called with each request for a service of [services], after its end. It must not block.
	Called func(Call)
	// Recorder records requests to services with record; nil: none is recorded.
	Recorder *recording.Writer
	Log      *slog.Logger
	Now      func() time.Time

	silence  time.Duration // silenceTime
	renew    time.Duration // renewTime
	bodyTime time.Duration
	slots    chan struct{}
	bodies   *semaphore.Weighted
	answers  *semaphore.Weighted
	waiting  waiting
	server   *http.Server
	served   chan struct{}
	ctx      context.Context // until Close
	cancel   context.CancelFunc
	asking   sync.WaitGroup

	mu       sync.Mutex
	services map[string]*service
	web      map[string]*webService
	webRates map[string]*budget.Rate // of [services.NAME]; a change of a service does not begin them again
	refusals map[string]refusal      // by the name of the service
	sent     chan struct{}           // closed when the services are replaced
	budget   setting.ModelBudget
	rate     budget.Rate
	spent    spent
	shares   shares
	reached  map[string]int // the percentage that was reported, by bound, task and day
	unsaved  bool           // the ledger has what is not in its files
	replay   *replay        // not nil: nothing is sent
}

// New returns a Gateway without services.
func New() *Gateway {
	ctx, cancel := context.WithCancel(context.Background())
	return &Gateway{ctx: ctx, cancel: cancel, spent: spent{questions: map[string]*question{}}, Stop: func(budget.State) {}, ShareWanted: func() {}, ShareRaised: func(budget.State, float64) {},
		Ask: func(context.Context, budget.State, float64) (float64, error) { return 0, nil }, Work: func(netip.AddrPort) Work { return Work{} }, Reached: func(budget.State) {}, Limited: func(string, time.Time) {}, Rekeyed: func(string) {}, Uncounted: func(error) {}, KeyRefused: func(string) {}, Called: func(Call) {}, Log: slog.Default(), Now: time.Now,
		silence: silenceTime, renew: renewTime, bodyTime: bodyTime, refusals: map[string]refusal{}, sent: make(chan struct{}), slots: make(chan struct{}, maxRequests), bodies: semaphore.NewWeighted(maxBodies), answers: semaphore.NewWeighted(maxAnswers), services: map[string]*service{}, web: map[string]*webService{}, webRates: map[string]*budget.Rate{}, reached: map[string]int{}}
}

// Set replaces the services and the budget. Answers that are open continue with what they began with.
func (g *Gateway) Set(m wire.Models) error {
	services := map[string]*service{}
	for _, c := range m.Models {
		s, err := newService(c, m.Proxy)
		if err != nil {
			return fmt.Errorf("model service %s: %w", c.Name, err)
		}
		services[c.Name] = s
	}
	if g.Recorder != nil {
		g.Recorder.Limit(m.RecordBytes)
	}
	var rekeyed []string
	defer func() {
		for _, name := range rekeyed {
			g.Rekeyed(name)
		}
	}()
	web := map[string]*webService{}
	for _, c := range m.Services {
		s, err := newWebService(c, m.Proxy)
		if err != nil {
			return fmt.Errorf("service %s: %w", c.Name, err)
		}
		web[c.Name] = s
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.setReplay(m.Replay); err != nil {
		return err
	}
	g.setWeb(web)
	for name, s := range services {
		if old := g.services[name]; old != nil && old.config.Key != s.config.Key {
			rekeyed = append(rekeyed, name)
		}
		if old := g.services[name]; old != nil && old.same(s) {
			old.pause(s.config.PausedUntil)
			services[name] = old // with its connections
		} else if old != nil {
			if until := old.paused(); !until.IsZero() {
				s.pause(until)
				s.turns.at(until)
			}
		}
	}
	for name, old := range g.services {
		if services[name] != old {
			old.transport.CloseIdleConnections()
		}
	}
	g.services, g.budget = services, m.Budget
	g.wasSent()
	g.setShared(m.Shared)
	g.spent.end, g.spent.step = m.OnBudget, m.BudgetStep
	return nil
}

// setWeb replaces the services that are no model services. g.mu is held.
func (g *Gateway) setWeb(web map[string]*webService) {
	for name, old := range g.web {
		if s := web[name]; s != nil && old.same(s) {
			web[name] = old // with its connections
		} else {
			old.transport.CloseIdleConnections()
		}
	}
	maps.DeleteFunc(g.webRates, func(name string, _ *budget.Rate) bool { return web[name] == nil })
	g.web = web
}

// Pause holds back the requests to a service until a time, at most an hour ahead. The agent's turn is a while
// later.
func (g *Gateway) Pause(name string, until time.Time, turn time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.services[name]; s != nil {
		until = bounded(until, g.Now())
		s.pause(until)
		s.turns.at(until.Add(min(max(turn, 0), maxTurn)))
	}
}

func bounded(until, now time.Time) time.Time {
	if last := now.Add(time.Hour); until.After(last) {
		return last
	}
	return until
}

// Serve answers requests on l until Close.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) {
	g.server = &http.Server{Handler: g, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, DisableGeneralOptionsHandler: true,
		BaseContext: func(net.Listener) context.Context { return ctx },
		// What is wrong with an agent's requests is the agent's to know.
		ErrorLog: log.New(io.Discard, "", 0)}
	g.served = make(chan struct{})
	go func() {
		defer close(g.served)
		if err := g.server.Serve(netutil.LimitListener(rawconn.Listener(l), maxConns)); !errors.Is(err, http.ErrServerClosed) {
			g.Log.Error("model endpoint ended", "err", err)
		}
	}()
}

// Close cuts all answers and waits until they are counted.
func (g *Gateway) Close(ctx context.Context) error {
	var err error
	g.cancel()
	defer g.asking.Wait()
	if g.server != nil {
		err = g.server.Close()
		<-g.served
	}
	for range maxRequests { // the requests return their slots
		select {
		case g.slots <- struct{}{}:
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("requests to models do not end: %w", context.Cause(ctx)))
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.services {
		s.transport.CloseIdleConnections()
	}
	g.setWeb(map[string]*webService{})
	if g.Recorder != nil {
		g.Recorder.Close()
	}
	if g.replay != nil {
		err = errors.Join(err, g.replay.close())
	}
	return err
}

// count adds a request to the ledger, and reports budgets that it has used up to a level. id is its number, or 0.
func (g *Gateway) count(id uint64, w Work, r ledger.Row) {
	g.saved(g.Ledger.End(id, r))
	g.mu.Lock()
	g.wantShare(true)
	st := g.ownState(w)
	level := 0
	switch {
	case st.Spent():
		level = 100
	case st.Percent >= budget.Warn:
		level = budget.Warn
	}
	key := fmt.Sprintf("%s %v %s %s", st.Bound, st.Limit, ledger.Day(g.Now()), w.Task)
	report := level > g.reached[key]
	if report {
		if len(g.reached) > 1024 {
			clear(g.reached)
		}
		g.reached[key] = level
	}
	g.mu.Unlock()
	if report {
		g.Reached(st)
	}
}
