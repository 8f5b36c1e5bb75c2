// Package metrics describes the state of the daemon for programs and people that monitor it: metrics in
// the text format of Prometheus, and the status line of systemd. It owns the optional server on a
// loopback port that serves the same text.
//
// It decides which metrics exist; docs/metrics.md lists them, and docs/grafana/polis.json shows them.
// Counters of agents are read from the agents at each request, through a Source: they are the agents'
// own, and outlive polisd. Those of model services are read from the agents' ledgers. The durations of merges, questions and patrol cycles are counted here, from
// the events that polisd publishes, and begin with zero when polisd starts.
//
// It changes nothing but its own counters, and never reads the files of agents. Labels are names of
// agents, workspaces and services, fixed words, and the names of models, which agents choose: the ledger
// bounds their form, and how many one agent has.
//
// Lock order: the mutex of Metrics, which lets one request read the Source at a time, then those of
// the library.
package metrics
