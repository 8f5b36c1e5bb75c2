package main

import (
	"context"
	"errors"
	"io"
	"time"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// logReader reads an agent's output, also across a restart of polisd: it
// continues at the byte after the last one that came.
type logReader struct {
	a     *app
	ctx   context.Context
	c     *client.Client
	name  string
	lines int
	raw   bool

	at    *client.LogStream
	since time.Time // of this connection
	back  reconnect
}

func (a *app) openLog(ctx context.Context, c *client.Client, name string, lines int, raw bool) (*logReader, error) {
	l := &logReader{a: a, ctx: ctx, c: c, name: name, lines: lines, raw: raw, back: reconnect{now: a.now}}
	return l, l.open(0)
}

func (l *logReader) open(from int64) (err error) {
	l.since = l.a.now()
	l.at, err = l.c.LogStream(l.ctx, l.name, client.LogQuery{Lines: l.lines, Follow: true, From: from, Raw: l.raw})
	l.lines = maxLines // for the next time: all there is after nothing
	if err == nil && l.at.Missed {
		l.a.complain(api.Errorf(api.CodeNotFound, "some of the output of agent %s is missing here: its log was rotated meanwhile", l.name))
	}
	return err
}

func (l *logReader) Read(p []byte) (int, error) {
	for {
		n, err := l.at.Read(p)
		if n > 0 {
			l.back.answered()
			return n, nil
		}
		if err == nil {
			continue
		}
		if err = l.reopen(err); err != nil {
			return 0, err
		}
	}
}

// reopen continues after an end that is polisd's; its error is the end of all.
func (l *logReader) reopen(err error) error {
	from := l.at.Position()
	for from >= 0 && l.ctx.Err() == nil && (errors.Is(err, io.EOF) || api.CodeOf(err) == api.CodeUnavailable) {
		if !l.back.again(l.ctx, l.a.now().Sub(l.since)) {
			break
		}
		_ = l.at.Close() //nolint:errcheck // it has ended
		old := l.at
		if err = l.open(from); err == nil {
			return nil
		}
		l.at = old
	}
	return err
}

func (l *logReader) Close() error { return l.at.Close() }
