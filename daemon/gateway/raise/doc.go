// Package raise keeps what a person has raised of an agent's model budgets: of one task, or of one day. It is in
// a file beside the agent's ledger, so that neither a restart of polisd nor one of the agent revokes it.
//
// It decides nothing, and knows no service.
package raise
