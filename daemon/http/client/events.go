package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"polis/daemon/api"
)

const mimeEvents = "text/event-stream"

// EventQuery selects events.
type EventQuery struct {
	// Since is the ID of the last event already seen; 0 means from the oldest kept.
	Since uint64
	// Follow waits for events to come.
	Follow bool
}

// Events calls fn for each event in order. Without Follow it returns nil after the last one. With
// Follow it returns only when ctx ends, fn fails or the connection is lost; call it again with
// Since set to the last ID to continue.
func (c *Client) Events(ctx context.Context, q EventQuery, fn func(api.Event) error) error {
	query := url.Values{}
	header := http.Header{"Accept": {mimeEvents, "application/json"}}
	if q.Follow {
		query.Set("follow", "1")
	}
	if q.Since > 0 {
		id := strconv.FormatUint(q.Since, 10)
		query.Set("since", id)
		header.Set("Last-Event-ID", id)
	}
	resp, err := c.request(ctx, http.MethodGet, "/v1/events", query, nil, header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if !isType(resp, mimeEvents) {
		return c.allEvents(ctx, resp, fn)
	}
	err = readEvents(resp.Body, fn)
	var stop consumerError
	switch {
	case errors.As(err, &stop):
		return stop.error
	case err != nil:
		return c.transportError(ctx, err)
	case q.Follow:
		return c.transportError(ctx, io.ErrUnexpectedEOF)
	}
	return nil
}

// allEvents reads the events of a complete answer, the form without follow.
func (c *Client) allEvents(ctx context.Context, resp *http.Response, fn func(api.Event) error) error {
	var all struct {
		Events []api.Event `json:"events"`
	}
	if err := c.decode(ctx, resp, &all); err != nil {
		return err
	}
	for _, e := range all.Events {
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// consumerError is an error of the caller's function, kept apart from those of
// the connection.
type consumerError struct{ error }

// readEvents parses server-sent events (WHATWG HTML, "Server-sent events"):
// "data" lines of one event are joined, unknown fields and comments ignored.
func readEvents(r io.Reader, fn func(api.Event) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	var data []byte
	for lines.Scan() {
		line := bytes.TrimSuffix(lines.Bytes(), []byte("\r"))
		if len(line) > 0 {
			field, value, _ := bytes.Cut(line, []byte(":"))
			if string(field) != "data" {
				continue
			}
			if len(data)+len(value) > maxLine {
				return api.Errorf(api.CodeTooLarge, "event is over %d bytes", maxLine)
			}
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
			continue
		}
		if len(data) == 0 {
			continue
		}
		var event api.Event
		if err := json.Unmarshal(data, &event); err != nil {
			return api.Errorf(api.CodeInternal, "event of polisd is not what was expected: %w", err)
		}
		data = nil
		if err := fn(event); err != nil {
			return consumerError{err}
		}
	}
	return lines.Err()
}

// stream opens an answer that is read while it is made.
func (c *Client) stream(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	resp, err := c.request(ctx, http.MethodGet, path, query, nil, http.Header{"Accept": {"text/plain"}}) //nolint:bodyclose // textStream closes it
	if err != nil {
		return nil, err
	}
	return &textStream{c: c, ctx: ctx, body: resp.Body}, nil
}

// textStream translates the errors of a body as all others are.
type textStream struct {
	c    *Client
	ctx  context.Context
	body io.ReadCloser
}

func (s *textStream) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if err != nil && err != io.EOF {
		return n, s.c.transportError(s.ctx, err)
	}
	return n, err
}

func (s *textStream) Close() error { return s.body.Close() }
