package ledger

// Agents choose the names of models in their requests: each ledger has a bounded number of them. A
// name keeps its row, so that the counts of a model never decrease.
const (
	// maxModels is how many models of one agent have rows of their own, maxAnswered how many if the
	// later ones have answered.
	maxModels   = 8
	maxAnswered = 16
	// Other is the model of the rows for all others.
	Other = "other"
)

// modelOf returns the name under which a request is counted. l.mu is held.
func (l *Ledger) modelOf(r Row) string {
	if r.Model == "" || l.models[r.Model] {
		return r.Model
	}
	if n := len(l.models); n >= maxAnswered || n >= maxModels && r.Total() == 0 {
		return Other
	}
	l.models[r.Model] = true
	return r.Model
}

func (s sums) models() map[string]bool {
	out := map[string]bool{}
	for k := range s {
		if k.Model != "" && k.Model != Other {
			out[k.Model] = true
		}
	}
	return out
}
