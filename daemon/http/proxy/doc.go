// Package proxy gives the web servers of agents names: one HTTP port of the
// host, at which http://AGENT.polis.localhost leads to the agent's first web
// server and http://PORT.AGENT.polis.localhost to that port of it. Browsers
// resolve names below localhost to the machine itself (RFC 6761), and
// development servers accept them as Host, which is passed on unchanged.
//
// Where a request goes follows from its Host alone: a name is read as an
// agent's and a number, and [Agents] connects inside that agent. Nothing an
// agent answers (a redirect, a header) makes the proxy connect anywhere.
// WebSockets, streams and HTTP/2 without TLS (with prior knowledge) are passed
// on. Everything is bounded: connections, those of one agent, headers, and the
// time for them.
//
// It runs in polisd; its connections break when that is restarted, those of
// port maps do not. It knows no agents but by Agents, opens nothing but its
// listener, and holds its mutex over no I/O.
package proxy
