package config

import (
	"net/netip"

	"polis/daemon/api"
)

// Metrics is the [metrics] table.
type Metrics struct {
	// Listen is the loopback address and port that serves the metrics; "": the admin socket only.
	Listen string `toml:"listen"`
}

func (c *Config) checkMetrics() error {
	s := c.Metrics.Listen
	if s == "" {
		return nil
	}
	at, err := netip.ParseAddrPort(s)
	switch {
	case err != nil || at.Port() == 0:
		return api.Errorf(api.CodeInvalidConfig, "metrics.listen = %q: must be an address and port, such as 127.0.0.1:9464", api.Shorten(s, 64))
	case !at.Addr().IsLoopback() || at.Addr().Zone() != "":
		return api.Errorf(api.CodeInvalidConfig, "metrics.listen = %q: must be a loopback address: no password protects the metrics", s)
	}
	return nil
}
