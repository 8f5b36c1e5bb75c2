// Package http has no code: its folders listen for people and programs, or speak to what listens: the API and its
// client, the metrics, and the proxy for the programs of agents.
//
// The server decides who may call; none of them decides anything about agents.
package http
