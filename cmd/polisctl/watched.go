package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
	"polis/internal/pause"
)

// watchEvery is how often --watch looks again.
const watchEvery = time.Second

// watched shows what look returns: once, or with watch again and again until
// interrupted. A terminal is redrawn; elsewhere a view is printed when it
// differs from the last one, as one line of JSON with --json.
func (a *app) watched(cmd *cobra.Command, watch bool, look func(context.Context, *client.Client) (view, error)) error {
	if !watch {
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			v, err := look(ctx, c)
			if err != nil {
				return err
			}
			return a.show(v)
		})
	}
	return a.follow(cmd, func(ctx context.Context, c *client.Client) error {
		var last []byte
		back, seen := reconnect{now: a.now}, false
		for {
			v, err := a.lookBounded(ctx, c, look)
			if seen && api.CodeOf(err) == api.CodeUnavailable && err != nil && back.again(ctx, 0) {
				continue // polisd is being restarted
			}
			if err != nil {
				return err
			}
			back.answered()
			seen = true
			if last, err = a.redraw(v, last); err != nil {
				return err
			}
			if !pause.For(ctx, watchEvery) {
				return api.Errorf(api.CodeTimeout, "%w", context.Cause(ctx))
			}
		}
	})
}

// redraw prints a view that differs from the last one, over it on a terminal,
// and returns what is shown.
func (a *app) redraw(v view, last []byte) ([]byte, error) {
	terminal := isTerminal(a.stdout) && !a.json
	var buf bytes.Buffer
	var err error
	if a.json {
		err = encode(&buf, v.json, "")
	} else {
		err = a.render(&buf, v, terminal)
	}
	if err != nil || last != nil && bytes.Equal(buf.Bytes(), last) {
		return last, err
	}
	text := buf.Bytes()
	if terminal {
		// Home, then each line followed by clear-to-end, then clear below: no flicker.
		text = fmt.Appendf(nil, ansi.CursorHomePosition+"%s"+ansi.EraseScreenBelow, bytes.ReplaceAll(text, []byte("\n"), []byte(ansi.EraseLineRight+"\n")))
	}
	return bytes.Clone(buf.Bytes()), a.write(text)
}

func (a *app) lookBounded(ctx context.Context, c *client.Client, look func(context.Context, *client.Client) (view, error)) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	return look(ctx, c)
}
