package recording

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
)

// Bounds of a recording.
const (
	// MaxBody bounds the body of a request, in bytes, as the gateway does.
	MaxBody = 32 << 20
	// maxLine bounds a line: a body that cannot be compressed, in base64.
	maxLine = MaxBody*4/3 + 1<<20
	// MaxExchanges bounds the exchanges of one recording.
	MaxExchanges = 50_000
)

// Request is what is kept of a request.
type Request struct {
	// Service is the name of [models.NAME], Kind its provider.Kind.
	Service string `json:"service"`
	Kind    string `json:"kind"`
	Method  string `json:"method"`
	// Path is that of the provider's API.
	Path   string `json:"path"`
	Model  string `json:"model,omitempty"`
	Stream bool   `json:"stream,omitempty"`
	// Body is nil for a request that has none.
	Body []byte `json:"-"`
}

// Answer is what is kept of an answer before its body.
type Answer struct {
	Status int `json:"status"`
	// Header are the headers that programs act on.
	Header map[string]string `json:"header,omitempty"`
}

// Headers are the headers of an answer that are kept.
var Headers = []string{"Content-Type", "Retry-After", "X-Should-Retry"}

// Ends of an exchange.
const (
	endWhole = "whole"
	endCut   = "cut"
)

// frame is one line.
type frame struct {
	// X is the place of the request's line in the file.
	X       int64    `json:"x"`
	Request *Request `json:"request,omitempty"`
	// Body of the request, compressed.
	Body   []byte  `json:"body,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
	Data   []byte  `json:"data,omitempty"`
	// Millis is when Data came, since the request.
	Millis int64  `json:"ms,omitempty"`
	End    string `json:"end,omitempty"`
	// Stopped is why nothing more is recorded of the task.
	Stopped string `json:"stopped,omitempty"`
}

func (f frame) line() ([]byte, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("record a request: %w", err)
	}
	return append(b, '\n'), nil
}

func pack(body []byte) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(body); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// unpack reads at most MaxBody bytes: a few compressed ones could be many.
func unpack(packed []byte) ([]byte, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(z, MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	if len(b) > MaxBody {
		return nil, fmt.Errorf("body: it has more than %d bytes", MaxBody)
	}
	return b, nil
}
