package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"polis/daemon/api"
)

// DefaultSocket is where polisd listens unless configured otherwise.
const DefaultSocket = "/run/polis/polisd.sock"

// Bounds of answers. A larger one is not an answer of polisd.
const (
	maxAnswer    = 64 << 20
	maxErrorBody = 64 << 10
	dialTimeout  = 5 * time.Second
)

// Client talks to one polisd. It may be used from several goroutines.
type Client struct {
	// Socket is the path of polisd's unix socket.
	Socket string
	// Handshake bounds how long an agent may take to start a command before
	// exec and attach give up. It does not bound the command itself.
	Handshake time.Duration

	http *http.Client
}

// New returns a Client for the socket at path; the empty path means
// DefaultSocket. Nothing is opened before the first call.
func New(path string) *Client {
	if path == "" {
		path = DefaultSocket
	}
	c := &Client{Socket: path, Handshake: 30 * time.Second}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dial(ctx, c.Socket)
			},
			DisableCompression: true,
			MaxIdleConns:       2,
			IdleConnTimeout:    30 * time.Second,
		},
		// The API never redirects; following a redirect would leave the socket.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func dial(ctx context.Context, path string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	return d.DialContext(ctx, "unix", path)
}

// request sends one request and returns the answer if its status is a
// success; otherwise the error the body holds.
func (c *Client) request(ctx context.Context, method, path string, query url.Values, in any, header http.Header) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, api.Errorf(api.CodeBadRequest, "encode request %s: %w", path, err)
		}
		body = bytes.NewReader(b)
	}
	target := "http://polisd" + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, api.Errorf(api.CodeBadRequest, "request %s: %w", path, err)
	}
	req.Header.Set("Accept", "application/json")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.transportError(ctx, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, answerError("polisd", resp)
	}
	return resp, nil
}

// call sends a request and decodes the JSON answer into out, unless out is nil.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	resp, err := c.request(ctx, method, path, query, in, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return c.decode(ctx, resp, out)
}

// fetch is call for an answer of one type.
func fetch[T any](ctx context.Context, c *Client, method, path string, query url.Values, in any) (T, error) {
	var out T
	err := c.call(ctx, method, path, query, in, &out)
	return out, err
}

func (c *Client) decode(ctx context.Context, resp *http.Response, out any) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return c.transportError(ctx, err)
	}
	if len(body) > maxAnswer {
		return api.Errorf(api.CodeTooLarge, "answer of polisd is over %d bytes", maxAnswer)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return api.Errorf(api.CodeInternal, "answer of polisd is not what was expected: %w", err).
			WithHint("are polisctl and polisd of the same version? compare them with: polisctl version")
	}
	return nil
}

// errNoBody marks an answer without a usable error body.
var errNoBody = errors.New("no error body")

// answerError turns a refused request into the error its body holds.
func answerError(who string, resp *http.Response) *api.Error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a cut body still gives the status below
	if e, err := parseError(body); err == nil {
		return e
	}
	return api.Errorf(api.CodeInternal, "%s answered %q without saying why", who, resp.Status)
}

// parseError reads the JSON form of an api.Error.
func parseError(body []byte) (*api.Error, error) {
	var e api.Error
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, err
	}
	if e.Code == "" && e.Message == "" {
		return nil, errNoBody
	}
	if e.Code == "" {
		e.Code = api.CodeInternal
	}
	if e.Message == "" {
		e.Message = string(e.Code)
	}
	return &e, nil
}

// isType reports whether an answer is of a media type, whatever its parameters.
func isType(resp *http.Response, want string) bool {
	t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && t == want
}

// ofWorkspace is the query for what belongs to a workspace, or to all if name is empty.
func ofWorkspace(name string) url.Values {
	query := url.Values{}
	if name != "" {
		query.Set("workspace", name)
	}
	return query
}

// waitFor has the daemon wait until what is requested is final, or the time is over.
func waitFor(d time.Duration) url.Values {
	query := url.Values{}
	if d > 0 {
		query.Set("wait", strconv.Itoa(max(int(d/time.Second), 1)))
	}
	return query
}
