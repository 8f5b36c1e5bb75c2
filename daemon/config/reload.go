package config

// fixed returns the settings that a running polisd keeps until it is restarted.
func (c *Config) fixed() map[string]*string {
	return map[string]*string{"run_dir": &c.RunDir, "workspaces_dir": &c.WorkspacesDir, "launcher": &c.Launcher, "read_group": &c.ReadGroup,
		"network.pool": &c.Network.Pool, "network.ports": &c.Network.Ports, "network.bind": &c.Network.Bind, "network.proxy": &c.Network.Proxy, "metrics.listen": &c.Metrics.Listen}
}

// Reloaded returns what counts after next has been read by a polisd that runs with c: next, with
// those settings of c that need a restart. restart reports whether one of them differs.
func (c *Config) Reloaded(next Config) (live Config, restart bool) {
	live = next
	now, want := c.fixed(), live.fixed()
	for key, value := range want {
		restart = restart || *value != *now[key]
		*value = *now[key]
	}
	return live, restart
}
