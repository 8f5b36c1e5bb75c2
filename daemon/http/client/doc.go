// Package client speaks the admin API of polisd over its unix socket, and the
// frame protocol of an agent's own socket for exec, shell and attach.
//
// It is what polisctl is made of, and meant for other programs too. A Client
// is made with New and needs no opening:
//
//	c := client.New("") // the default socket
//	defer c.Close()
//	agents, err := c.Agents(ctx, "")
//
// There is one method for each route of the API but those for root alone
// (docs/openapi.json describes them all), with the types of package polis/daemon/api. Calls end with their
// context; they have no bound of their own but that of connecting, so give
// them a deadline. Long calls (Up, Add) report their steps to a function.
//
// Every error is an *api.Error with a code that stays (docs/errors.md), a
// message for people and mostly a hint; api.CodeOf returns the code of any
// error. CodeUnavailable: polisd was not reached, or the connection was lost; in that case
// the request may have been carried out.
//
// Events are followed with Events. A connection that is lost ends it with
// CodeUnavailable; ask again with Since set to the last ID. If more happened
// meanwhile than polisd keeps, an event of type api.EventEventsMissed comes
// first: read the state again then, with Status.
//
// The package owns connections and nothing else: no retries of requests that
// change something, no cache, no terminal (raw mode and signals belong to the
// program that has a terminal). A Client may be used from several goroutines;
// it takes no locks of its own.
package client
