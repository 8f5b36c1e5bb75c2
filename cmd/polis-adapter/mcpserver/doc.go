// Package mcpserver is the MCP server of an agent's sandbox: what its model can ask of polis, as
// tools.
//
// It owns the tools and their descriptions, which the model reads. It decides nothing: every call
// is a request to the agent's own socket, and a refusal comes back with its reason and its hint.
package mcpserver
