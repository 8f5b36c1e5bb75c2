package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"polis/daemon/api"
)

// PortMap is a port map, written as [internal, external] (seed 000, "state.json
// Schema"). What is not so of a TCP map made by hand, bound as configured,
// follows in a third element, which a polisd that does not know it leaves out.
type PortMap struct {
	Internal int
	External int
	// Protocol is "tcp" or "udp".
	Protocol string
	// Bind is where it was asked to be bound; "" is as configured.
	Bind string
	// Auto: polis made it because something listened there.
	Auto bool
	// Off, of a port that is not mapped: polis shall not map it by itself.
	Off bool
}

type portMapRest struct {
	Protocol string `json:"protocol,omitempty"`
	Bind     string `json:"bind,omitempty"`
	Auto     bool   `json:"auto,omitempty"`
	Off      bool   `json:"off,omitempty"`
}

// MarshalJSON writes two or three elements.
func (p PortMap) MarshalJSON() ([]byte, error) {
	rest := portMapRest{Protocol: p.Protocol, Bind: p.Bind, Auto: p.Auto, Off: p.Off}
	if rest.Protocol == api.ProtoTCP {
		rest.Protocol = ""
	}
	out := []any{p.Internal, p.External}
	if rest != (portMapRest{}) {
		out = append(out, rest)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads two elements or more: a newer polisd may have added some.
func (p *PortMap) UnmarshalJSON(b []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(b, &parts); err != nil {
		return fmt.Errorf("port map: %w", err)
	}
	if len(parts) < 2 {
		return errors.New("port map: must be [internal, external]")
	}
	var internal, external int
	var rest portMapRest
	err := errors.Join(json.Unmarshal(parts[0], &internal), json.Unmarshal(parts[1], &external))
	if err == nil && len(parts) > 2 {
		err = json.Unmarshal(parts[2], &rest)
	}
	if err != nil {
		return fmt.Errorf("port map: %w", err)
	}
	*p = PortMap{Internal: internal, External: external, Protocol: cmp.Or(rest.Protocol, api.ProtoTCP), Bind: rest.Bind, Auto: rest.Auto, Off: rest.Off}
	return nil
}
