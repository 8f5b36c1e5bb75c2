package setting

import "errors"

// Verdict is what a gate does with a request that it could refuse.
type Verdict string

// The verdicts. Ask: a person answers.
const (
	Allow Verdict = "allow"
	Ask   Verdict = "ask"
	Deny  Verdict = "deny"
)

// Check refuses every other word.
func (v Verdict) Check() error {
	switch v {
	case Allow, Ask, Deny:
		return nil
	}
	return errors.New(`must be "allow", "ask" or "deny"`)
}
