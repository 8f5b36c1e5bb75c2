// Package adapter is the program polis-adapter. It speaks the protocols of agents' programs, in an
// agent's sandbox: it is an MCP server for them (polisctl mcp), and an ACP client of them (polisctl acp).
// polisctl replaces itself with it.
//
// It is not part of polisctl because the libraries of these protocols would make every start of
// polisctl, which hooks call for each tool, a millisecond (a fifth) longer. It has no rights: whatever
// it asks of polis goes through the agent's own socket.
package adapter
