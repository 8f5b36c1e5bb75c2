package gateway

import (
	"polis/daemon/gateway/budget"
	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/provider"
	"polis/daemon/gateway/usage"
)

// begin notes the request in the ledger before it is sent. If the shim is killed before the answer ends, it counts as
// cut, with the tokens that an answer without a byte would have.
func (x *exchange) begin() {
	c := ledger.Counts{Requests: 1, Cut: 1}
	if x.call.Format != provider.FormatNone {
		c.Tokens, _ = usage.NewMeter(x.call.Format, x.stream, len(x.body)).End(true)
		c.Estimated = 1
	}
	x.price(&c)
	id, err := x.g.Ledger.Begin(x.row(c))
	x.id = id
	x.g.saved(err)
}

// price sets the cost of the tokens, if their price is configured.
func (x *exchange) price(c *ledger.Counts) {
	if c.Total() == 0 {
		return
	}
	var known bool
	if c.Micros, known = budget.Cost(x.s.config.Prices, x.model, x.began, c.Tokens); known {
		c.Priced = 1
	} else {
		c.Unpriced = 1
	}
}

// saved reports that the ledger cannot be written. Budgets hold nevertheless: it has all counts in memory, and
// saves them with the next request that it can write.
func (g *Gateway) saved(err error) {
	g.mu.Lock()
	news := err != nil && !g.unsaved
	g.unsaved = err != nil
	g.mu.Unlock()
	if news {
		g.Log.Error("model request not counted durably", "op", "model", "err", err)
		g.Uncounted(err)
	}
}
