package firewall

import (
	"strings"

	"polis/daemon/api"
	"polis/netbridge"
)

// Describe says who drops the packets of agents, and in which hook. It is "" if they pass, or the host itself has no
// route.
func Describe(f netbridge.Forwarding) string {
	if f.Works || f.NoRoute {
		return ""
	}
	what := "packets of agents to the network outside are dropped"
	if f.Replies {
		what = "packets of agents leave this host, and the answers to them are dropped"
	}
	if f.Culprit.Program == "" {
		return what + ": " + f.Culprit.Place
	}
	return what + " by " + f.Culprit.String()
}

// Opening says which commands let them pass.
func Opening(f netbridge.Forwarding) string {
	if f.Works || f.NoRoute {
		return ""
	}
	do := strings.Join(f.Culprit.Open, "; ")
	if f.Culprit.Program == netbridge.Docker {
		do += "; or set network.docker_user = true in polisd.toml, which keeps these rules across restarts of both"
	}
	return do
}

// Blocked is the error of an agent whose packets are dropped, nil if they pass.
func Blocked(f netbridge.Forwarding) *api.Error {
	text := Describe(f)
	if text == "" {
		return nil
	}
	return api.Errorf(api.CodeNetworkBlocked, "%s", text).WithHint("%s", Opening(f))
}
