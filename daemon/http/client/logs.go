package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"polis/daemon/api"
)

// LogQuery selects a part of an agent's output.
type LogQuery struct {
	// Lines are the last ones to begin with. Without effect if From is set.
	Lines int
	// Follow waits for new output.
	Follow bool
	// From is the Position of an earlier stream, to continue there; 0 means none.
	From int64
	// Raw is for what the programs of tasks printed whose output has steps instead.
	Raw bool
}

// LogStream is a stream of an agent's output.
type LogStream struct {
	// Missed: a part of the output after From is lost; the stream begins with the oldest that is
	// kept.
	Missed bool

	c    *Client
	ctx  context.Context
	body io.ReadCloser
	pos  int64
}

// LogStream opens the output of an agent's main command. A stream that follows
// ends with io.EOF when polisd does.
func (c *Client) LogStream(ctx context.Context, name string, q LogQuery) (*LogStream, error) {
	query := url.Values{"lines": {strconv.Itoa(q.Lines)}}
	if q.Follow {
		query.Set("follow", "1")
	}
	if q.From > 0 {
		query.Set("from", strconv.FormatInt(q.From, 10))
	}
	if q.Raw {
		query.Set("raw", "1")
	}
	resp, err := c.request(ctx, http.MethodGet, agentPath(name, "logs"), query, nil, http.Header{"Accept": {"text/plain"}}) //nolint:bodyclose // LogStream closes it
	if err != nil {
		return nil, err
	}
	s := &LogStream{c: c, ctx: ctx, body: resp.Body, Missed: resp.Header.Get(api.HeaderLogMissed) != ""}
	if s.pos, err = strconv.ParseInt(resp.Header.Get(api.HeaderLogPosition), 10, 64); err != nil {
		s.pos = -1
	}
	return s, nil
}

// Position is the number of the byte behind the last one that was read; -1 if unknown, so that
// the log cannot be continued from there.
func (s *LogStream) Position() int64 { return s.pos }

func (s *LogStream) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if s.pos >= 0 {
		s.pos += int64(n)
	}
	if err != nil && err != io.EOF {
		return n, s.c.transportError(s.ctx, err)
	}
	return n, err
}

// Close ends the stream.
func (s *LogStream) Close() error { return s.body.Close() }
