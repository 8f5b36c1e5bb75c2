package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"polis/daemon/api"
)

const (
	mimeLines = "application/x-ndjson"
	maxLine   = 4 << 20
)

// progressLine is one line of a long call's answer. Exactly one of the fields
// is there; Result and Error are the last line.
type progressLine struct {
	Progress string          `json:"progress"`
	Result   json.RawMessage `json:"result"`
	Error    *api.Error      `json:"error"`
}

// long sends a request whose answer may take a while. With a progress function it requests the
// line form; a complete answer is understood as well.
func (c *Client) long(ctx context.Context, path string, in, out any, progress func(string)) error {
	if progress == nil {
		return c.call(ctx, http.MethodPost, path, nil, in, out)
	}
	resp, err := c.request(ctx, http.MethodPost, path, nil, in, http.Header{"Accept": {mimeLines}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if !isType(resp, mimeLines) {
		return c.decode(ctx, resp, out)
	}
	result, err := readProgress(resp.Body, progress)
	if err != nil {
		return c.transportError(ctx, err)
	}
	if err := json.Unmarshal(result, out); err != nil {
		return api.Errorf(api.CodeInternal, "answer of polisd is not what was expected: %w", err)
	}
	return nil
}

// errCutShort is an answer that ended before its last line.
var errCutShort = errors.New("answer ended before its result")

// readProgress reads progress lines up to the result. An error line is
// returned as *api.Error.
func readProgress(r io.Reader, progress func(string)) (json.RawMessage, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	for lines.Scan() {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var line progressLine
		if err := json.Unmarshal(text, &line); err != nil {
			return nil, api.Errorf(api.CodeInternal, "answer of polisd is not what was expected: %w", err)
		}
		switch {
		case line.Error != nil:
			return nil, line.Error
		case line.Result != nil:
			return line.Result, nil
		case line.Progress != "":
			progress(line.Progress)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, errCutShort
}
