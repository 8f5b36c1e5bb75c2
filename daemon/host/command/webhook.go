package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

const (
	// timeout bounds one exchange.
	timeout = 10 * time.Second
	// maxAnswer is how much of the answer is kept, in bytes.
	maxAnswer = 1 << 10
	maxTarget = 1024
	// maxSocket is sun_path of unix(7) without its NUL.
	maxSocket = 107
)

// Webhook is where messages go. The zero value is nowhere.
type Webhook struct {
	network, address, url string
}

// Set reports whether there is a target.
func (t Webhook) Set() bool { return t.url != "" }

// ParseWebhook reads "http://127.0.0.1:9000/path", with an address of the loopback network or [::1], or
// "unix:/run/alerts.sock". "" is no target.
func ParseWebhook(s string) (Webhook, error) {
	if s == "" {
		return Webhook{}, nil
	}
	if len(s) > maxTarget {
		return Webhook{}, fmt.Errorf("must have at most %d bytes", maxTarget)
	}
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || len(path) > maxSocket || strings.ContainsRune(path, 0) {
			return Webhook{}, fmt.Errorf("must have the clean absolute path of a socket, of at most %d bytes, after unix:", maxSocket)
		}
		return Webhook{network: "unix", address: path, url: "http://localhost/"}, nil
	}
	u, err := url.Parse(s)
	if err != nil {
		return Webhook{}, errors.New("is not a URL")
	}
	at, err := netip.ParseAddrPort(u.Host)
	switch {
	case u.Scheme != "http" || u.User != nil || u.Fragment != "":
		return Webhook{}, errors.New("must begin with http:// or unix:")
	case err != nil || !at.Addr().IsLoopback() || at.Port() == 0:
		return Webhook{}, errors.New("must have an address of the loopback network and a port, such as 127.0.0.1:9000")
	}
	return Webhook{network: "tcp", address: at.String(), url: u.String()}, nil
}

// Post sends a body of JSON and returns the beginning of the answer. It follows no redirection, uses
// no proxy, and an answer that is not 2xx is an error.
func (t Webhook) Post(ctx context.Context, body []byte) (answer string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer in %s", timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("post to %s: %w", t.address, err)
	}
	req.Header.Set("Content-Type", "application/json")
	var d net.Dialer
	tr := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, t.network, t.address)
		}}
	defer tr.CloseIdleConnections()
	c := http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return "", fmt.Errorf("post to %s: %w", t.address, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	answer = strings.TrimSpace(strings.ToValidUTF8(string(b), "?"))
	if resp.StatusCode/100 != 2 {
		return answer, fmt.Errorf("post to %s: %s", t.address, resp.Status)
	}
	return answer, err
}
