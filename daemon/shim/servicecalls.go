package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/gateway"
	"polis/netbridge"
)

const (
	// ServiceLog is the log of an agent's requests to services, in the directory of its logs;
	// ServiceLog+".1" is the part before the last rotation.
	ServiceLog = "services.log"
	// maxServiceLog bounds both files together, in bytes.
	maxServiceLog = 8 << 20
	// callQuiet is how long equal calls are only counted after one was reported.
	callQuiet = time.Minute
	// maxCallEvents bounds the events of one agent's calls in callQuiet.
	maxCallEvents = 60
)

// serviceCalls records the calls of the agent to services: each one in its log, and equal ones together
// as events.
type serviceCalls struct {
	log *logFile

	mu      sync.Mutex
	since   time.Time // of events
	events  int       // since then
	calls   map[callID]*callCount
	omitted int // calls without an event since the last one
}

// callID identifies equal calls.
type callID struct {
	service, method, path, code string
	status                      int
}

type callCount struct {
	reported time.Time
	count    int
}

// due counts a call. It returns how many equal calls an event is to report, and how many others had no
// event; count 0 is no event.
func (c *serviceCalls) due(call gateway.Call, now time.Time) (count, omitted int) {
	id := callID{call.Service, call.Method, call.Path, call.Code, call.Status}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.since) >= callQuiet {
		c.since, c.events = now, 0
		for id, k := range c.calls {
			if now.Sub(k.reported) >= 2*callQuiet {
				c.omitted += k.count
				delete(c.calls, id)
			}
		}
	}
	k := c.calls[id]
	if k != nil && now.Sub(k.reported) < callQuiet {
		k.count++
		return 0, 0
	}
	if c.events >= maxCallEvents {
		c.omitted++
		return 0, 0
	}
	if k == nil {
		k = &callCount{} // at most maxCallEvents for each callQuiet
		if c.calls == nil {
			c.calls = map[callID]*callCount{}
		}
		c.calls[id] = k
	}
	c.events++
	count, omitted = k.count+1, c.omitted
	k.reported, k.count, c.omitted = now, 0, 0
	return count, omitted
}

// serviceCalled records a call.
func (s *Shim) serviceCalled(call gateway.Call) {
	b, err := json.Marshal(call)
	if err == nil {
		_, err = s.models.calls.log.Write(append(b, '\n'))
	}
	if err != nil {
		s.Log.Error("service call not logged", "op", "service", "err", err)
	}
	count, omitted := s.models.calls.due(call, time.Now())
	if count == 0 {
		return
	}
	ev := api.Event{Type: api.EventServiceCall, Agent: s.Spec.Agent,
		Message: fmt.Sprintf("agent %s: service %s: %s %s: %d", s.Spec.Agent, call.Service, call.Method, call.Path, call.Status),
		Data:    map[string]any{"service": call.Service, "op": call.Method, "path": call.Path, "status": call.Status, "count": count}}
	if call.Code != "" {
		ev.Data["refusal"] = call.Code
		ev.Message += " (" + call.Code + ")"
	}
	if count > 1 {
		ev.Message += fmt.Sprintf(", %d calls since the last report", count)
	}
	if omitted > 0 {
		ev.Data["omitted"] = omitted
		ev.Message += fmt.Sprintf("; %d other calls are only in %s", omitted, ServiceLog)
	}
	s.events.Publish(ev)
}

// openCalls opens the log of calls.
func openCalls(dir string) (*serviceCalls, error) {
	l, err := openLog(dir, ServiceLog, maxServiceLog)
	if err != nil {
		return nil, errors.Join(errors.New("log of service calls"), err)
	}
	return &serviceCalls{log: l}, nil
}

// serviceName resolves the names of services, which are at the endpoint of the agent. A name that the
// agent does not have gets a clear answer there.
func (s *Shim) serviceName(a netbridge.Asked) (netip.Addr, bool) {
	if !wire.IsServiceName(a.Name) {
		return netip.Addr{}, false
	}
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	if s.models.gateway == nil {
		return netip.Addr{}, true
	}
	return modelAddr().Addr(), true
}

// localName resolves the names that are never queried outside.
func (s *Shim) localName(a netbridge.Asked) (netip.Addr, bool) {
	if addr, ok := s.serviceName(a); ok {
		return addr, true
	}
	return s.hostName(a)
}
