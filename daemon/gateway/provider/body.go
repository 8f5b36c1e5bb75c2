package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// Request is what the gateway reads of a body.
type Request struct {
	Model string
	// Stream: the answer is sent as events.
	Stream bool
	// Body is what is sent to the provider: the bytes of the agent, or with the usage of a stream
	// requested, which chat completions do not have otherwise.
	Body []byte
}

// controlled are the fields that the gateway decides by. A body that has one twice, or in another
// spelling, could mean one thing here and another one at the provider.
var controlled = []string{"model", "stream", "stream_options", "background"}

// ReadBody reads the body of a call. An error is for the agent; it never has content of the body.
func ReadBody(c Call, body []byte) (Request, error) {
	fields, err := object(body)
	if err != nil {
		return Request{}, err
	}
	req := Request{Model: c.Model, Body: body}
	if c.Format == FormatGemini {
		// The path has the model, and determines if the answer is a stream.
		req.Stream = strings.HasSuffix(c.Path, ":streamGenerateContent")
		return req, nil
	}
	if c.InBody {
		if err := text(fields["model"].value, &req.Model); err != nil || !bodyModel.MatchString(req.Model) {
			return Request{}, errors.New("model: must be the name of a model")
		}
	}
	if err := boolean(fields["stream"].value, &req.Stream); err != nil {
		return Request{}, errors.New("stream: must be true or false")
	}
	var background bool
	if err := boolean(fields["background"].value, &background); err != nil || background {
		return Request{}, errors.New("background: an answer that is not read here cannot be counted")
	}
	if c.Format == FormatChat && req.Stream {
		if req.Body, err = withUsage(fields, body); err != nil {
			return Request{}, err
		}
	}
	return req, nil
}

func text(raw json.RawMessage, v *string) error { return json.Unmarshal(raw, v) }

// boolean reads true, false and null; a field that is missing is false.
func boolean(raw json.RawMessage, v *bool) error {
	if raw == nil {
		return nil
	}
	return json.Unmarshal(raw, v)
}

// maxOptions bounds the options of a stream, in bytes.
const maxOptions = 4 << 10

// withUsage has a chat completion report its usage at the end of a stream.
func withUsage(fields map[string]member, body []byte) ([]byte, error) {
	options, given := map[string]json.RawMessage{}, fields["stream_options"]
	if len(given.value) > maxOptions {
		return nil, errors.New("stream_options: too large")
	}
	if given.value != nil {
		if err := json.Unmarshal(given.value, &options); err != nil {
			return nil, errors.New("stream_options: must be an object")
		}
	}
	for name := range options {
		if strings.EqualFold(name, "include_usage") && name != "include_usage" {
			return nil, errors.New("stream_options: include_usage is in another spelling")
		}
	}
	if string(bytes.TrimSpace(options["include_usage"])) == "true" && !twice(given.value) {
		return body, nil
	}
	if options == nil { // null
		options = map[string]json.RawMessage{}
	}
	options["include_usage"] = json.RawMessage("true")
	raw, err := json.Marshal(options)
	if err != nil {
		return nil, errors.New("stream_options: must be an object")
	}
	if given.value != nil {
		return bytes.Join([][]byte{body[:given.start], raw, body[given.end:]}, nil), nil
	}
	first := bytes.IndexByte(body, '{') + 1 // the object has other members: the model
	return bytes.Join([][]byte{body[:first], []byte(`"stream_options":`), raw, []byte(","), body[first:]}, nil), nil
}

// twice reports whether an object can have a field twice: then it is written again.
func twice(raw json.RawMessage) bool { return bytes.Count(raw, []byte(":")) > 1 }
