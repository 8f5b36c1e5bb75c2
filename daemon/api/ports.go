package api

// The protocols of port maps.
const (
	ProtoTCP = "tcp"
	ProtoUDP = "udp"
)

// PortMapping is one way in from the host to a port of an agent.
type PortMapping struct {
	Agent    string `json:"agent"`
	Internal int    `json:"internal"`
	External int    `json:"external"`
	// Protocol is "tcp" or "udp".
	Protocol string `json:"protocol"`
	Bind     string `json:"bind"`
	// Auto is true if polis made the mapping because something listens there.
	Auto bool `json:"auto,omitempty"`
	// Served is true if the host's side is open: the agent is up.
	Served bool `json:"served"`
	// Wanted is the external port that was asked for, or that it had before,
	// if that is in use.
	Wanted int `json:"wanted,omitempty"`
	// URL is its name at the proxy, if there is one (network.proxy).
	URL string `json:"url,omitempty"`
}

// PortRequest maps a port, or several in a row: then all of them or none.
type PortRequest struct {
	Agent    string `json:"agent"`
	Internal int    `json:"internal"`
	// Last is the last internal port of a range; 0: Internal alone.
	Last int `json:"last,omitempty"`
	// External is the first external port; 0: any.
	External int `json:"external,omitempty"`
	// Protocol is "tcp" (or "") or "udp".
	Protocol string `json:"protocol,omitempty"`
	// Bind is an IP address of the host; "" is that of the configuration.
	Bind string `json:"bind,omitempty"`
}

// PortsAdded is the first map that was made, and all of them.
type PortsAdded struct {
	PortMapping
	Ports []PortMapping `json:"ports"`
}
