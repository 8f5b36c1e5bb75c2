package models

import (
	"cmp"
	"slices"

	"polis/daemon/gateway/ledger"
)

// Series is what one agent used of one model of a service, ever.
type Series struct {
	Service, Model string
	ledger.Counts
	// Cost is in millionths, by currency; a currency is missing if nothing has a price in it.
	Cost map[string]int64
}

// Series returns what the agent with its logs in dir used, by service and model. The number of models is
// bounded by the ledger, and no count of a series decreases while the ledger exists.
func (b *Book) Series(dir string) ([]Series, error) {
	type key struct{ service, model string }
	sums := map[key]*sum{}
	err := b.Rows(dir, func(r ledger.Row) {
		k := key{r.Service, r.Model}
		if sums[k] == nil {
			sums[k] = &sum{}
		}
		sums[k].add(r)
	})
	out := make([]Series, 0, len(sums))
	for k, s := range sums {
		out = append(out, Series{Service: k.service, Model: k.model, Counts: s.Counts, Cost: s.cost})
	}
	slices.SortFunc(out, func(a, b Series) int { return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Model, b.Model)) })
	return out, err
}
