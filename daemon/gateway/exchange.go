package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"time"

	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/provider"
	"polis/daemon/gateway/recording"
	"polis/daemon/gateway/usage"
)

// exchange is one request that is sent to a service, and its answer.
type exchange struct {
	g      *Gateway
	s      *service
	call   provider.Call
	work   Work
	model  string
	stream bool
	body   []byte
	retry  bool

	turn   *turn
	id     uint64 // of the ledger
	began  time.Time
	rec    *recording.Exchange
	meter  *usage.Meter // of an answer with tokens
	in     io.Reader    // the answer, without the key
	source io.Closer
	silent *silenceTimer
	first  time.Duration
	failed bool
	once   sync.Once
}

var errSilent = errors.New("the service sent nothing for too long")

var quiet = log.New(io.Discard, "", 0)

// send relays the request and the answer.
func (x *exchange) send(w http.ResponseWriter, r *http.Request) {
	p := &httputil.ReverseProxy{Rewrite: x.rewrite, Transport: x, FlushInterval: -1, ModifyResponse: x.answered, ErrorHandler: x.fail, ErrorLog: quiet}
	defer func() {
		// The proxy panics with http.ErrAbortHandler if the answer is cut, so that the agent sees it. It is counted.
		v := recover()
		x.done(true) // if the end was not seen
		if v != nil {
			panic(v)
		}
	}()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	// An answer that does not continue would occupy one of the agent's requests for ever.
	x.silent = newSilenceTimer(x.g.silence+headersTime, func() { cancel(errSilent) })
	defer x.silent.stop()
	x.begin()
	p.ServeHTTP(w, r.WithContext(ctx))
}

func (x *exchange) rewrite(p *httputil.ProxyRequest) {
	out := p.Out
	query := url.Values(provider.Query(p.In.URL.Query()))
	out.URL = &url.URL{Scheme: x.s.url.Scheme, Host: x.s.url.Host, Path: x.s.url.Path + x.call.Path, RawQuery: query.Encode()}
	out.Host, out.Method = "", x.call.Method
	out.Header = provider.Headers(p.In.Header)
	x.s.kind.Authorize(out.Header, x.s.config.Key)
	out.Trailer, out.TransferEncoding = nil, nil
	out.Body, out.GetBody, out.ContentLength = http.NoBody, nil, 0
	if x.call.Body {
		out.Header.Set("Content-Type", "application/json")
		out.ContentLength = int64(len(x.body))
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.body)), nil }
		out.Body = io.NopCloser(bytes.NewReader(x.body))
	}
}

// answered begins to count an answer.
func (x *exchange) answered(resp *http.Response) error {
	x.failed = resp.StatusCode >= 400
	limited := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == 529 // 529: overloaded, of Anthropic
	if limited {
		if until, ok := retryAfter(resp.Header, x.g.Now()); ok {
			x.s.pause(until)
			x.g.Limited(x.s.config.Name, until)
		}
	}
	x.turn.end(limited) // after the pause is known
	if err := decode(resp); err != nil {
		return err
	}
	x.rec.Answer(recordedAnswer(resp))
	format := x.call.Format
	if x.failed {
		format = provider.FormatNone
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	x.meter = usage.NewMeter(format, err == nil && media == "text/event-stream", len(x.body))
	x.meter.Room = x.g.answers
	x.source, x.in = resp.Body, x.s.redact(resp.Body)
	resp.Body = x
	x.silent.bound(x.g.silence)
	return nil
}

// maxRetryAfter bounds what a service can ask for.
const maxRetryAfter = time.Hour

// retryAfter reads the header of RFC 9110: seconds or a date.
func retryAfter(h http.Header, now time.Time) (time.Time, bool) {
	v := h.Get("Retry-After")
	if n, err := strconv.ParseFloat(v, 64); err == nil && n > 0 {
		return now.Add(min(time.Duration(min(n, maxRetryAfter.Seconds())*float64(time.Second)), maxRetryAfter)), true
	}
	if t, err := http.ParseTime(v); err == nil && t.After(now) {
		return bounded(t, now), true
	}
	return time.Time{}, false
}

// Read is the answer's body for the proxy.
func (x *exchange) Read(p []byte) (int, error) {
	n, err := x.in.Read(p)
	x.silent.heard()
	if n > 0 {
		if x.first == 0 {
			x.first = max(x.g.Now().Sub(x.began), time.Microsecond)
		}
		if !x.failed && !x.work.Over {
			x.g.waiting.heard(p[:n], x.g.Now())
		}
		_, _ = x.meter.Write(p[:n]) //nolint:errcheck // it never fails
		x.rec.Data(p[:n])
	}
	if errors.Is(err, io.EOF) {
		x.done(false) // counted before the agent sees the end
	}
	return n, err
}

// Close is called by the proxy.
func (x *exchange) Close() error {
	err := x.source.Close()
	x.done(true)
	return err
}

// fail answers a request that got no answer of the service.
func (x *exchange) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		x.failed = true
		x.g.Log.Warn("model service not reached", "op", "model", "err", err)
	}
	f := provider.Failure{Status: http.StatusBadGateway, Code: CodeService, RetryAfter: 1, Message: reason(err)}
	if x.failed {
		x.rec.Answer(recording.Answer{Status: f.Status, Header: map[string]string{"Content-Type": "application/json", "Retry-After": "1"}})
		x.rec.Data(x.s.kind.Body(f))
		x.rec.End(false)
	}
	x.done(true)
	refuse(w, x.s.kind, f)
}

// reason is the text of a failure for the agent: it has no address or name of the host's network.
func reason(err error) string {
	switch {
	case errors.Is(err, errRedirect):
		return errRedirect.Error()
	case errors.Is(err, errUpgrade):
		return errUpgrade.Error()
	case errors.Is(err, errStatus):
		return errStatus.Error()
	case errors.Is(err, errCompressed):
		return errCompressed.Error()
	}
	return "the model service was not reached; the administrator finds the reason in the log of the agent's shim"
}

// done counts the exchange once. cut: the answer did not reach its end.
func (x *exchange) done(cut bool) {
	x.once.Do(func() {
		x.rec.End(cut)
		c := ledger.Counts{Requests: 1}
		if x.retry {
			c.Retries = 1
		}
		switch {
		case x.failed:
			c.Errors = 1
		case cut:
			c.Cut = 1
		}
		if !x.failed && x.call.Format != provider.FormatNone {
			if x.meter == nil { // it was cut before the answer
				x.meter = usage.NewMeter(x.call.Format, x.stream, len(x.body))
			}
			var estimated bool
			if c.Tokens, estimated = x.meter.End(cut); estimated {
				c.Estimated = 1
			}
			if x.first > 0 {
				c.TookFirst(x.first.Microseconds())
			}
		}
		x.price(&c)
		x.g.count(x.id, x.work, x.row(c))
	})
}

// refused counts a request that is not sent.
func (x *exchange) refused() { x.g.count(0, x.work, x.row(ledger.Counts{Requests: 1, Refused: 1})) }

func (x *exchange) row(c ledger.Counts) ledger.Row {
	return ledger.Row{Counts: c, Key: ledger.Key{Day: ledger.Day(x.began), Task: x.work.Task, Service: x.s.config.Name, Model: x.model, Currency: x.s.config.Currency}}
}
