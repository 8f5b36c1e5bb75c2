package config

import (
	"polis/daemon/api"
	"polis/netbridge/egress"
)

// EgressWords returns the list that words ask for: the words themselves, or, if they have signs ("+NAME", "-NAME"), the
// list that applies to the agent now with them applied. The result is the agent's own: it no longer follows its role.
// An error is CodeBadRequest and names the word.
func (c *Config) EgressWords(role string, own Own, words []string) ([]string, error) {
	signed, err := egress.Relative(words)
	if err == nil && signed {
		words, err = egress.Change(c.over(role, own).Egress, words)
	}
	if err != nil {
		return nil, api.Errorf(api.CodeBadRequest, "egress: %w", err).WithHint(egressHint)
	}
	return words, nil
}
