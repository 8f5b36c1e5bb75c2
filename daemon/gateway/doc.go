// Package gateway serves the endpoint of one agent for model services and others: it takes the requests of the agent's programs
// on the agent's own loopback, refuses what is not allowed, adds the key, relays the answer as it
// comes, and counts it. It runs in the agent's shim, so that a restart of polisd cuts no answer. polisd
// sends it the services and their keys, which are in no file, argument or environment.
//
// What an agent sends is hostile input. No part of the address of a request to a model service comes from
// the agent: the path is made from the table of package provider, the host from the configuration. The path
// of a request to another service is sent in the form in which package access has allowed it.
// No redirect is followed. The key is removed from answers that repeat it.
//
// Lock order: Gateway.mu, then the ledger's. No lock is held while a request is sent.
package gateway
