package budget

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"strings"
	"time"

	"polis/daemon/api/setting"
	"polis/daemon/gateway/usage"
)

// Cost returns what tokens of a model cost at a time, in millionths of the currency, rounded. Of the
// prices whose pattern matches, the one with the last day that has begun applies; of equal days the
// first. Without one the cost is not known: polis knows no price by itself.
func Cost(prices []setting.ModelPrice, model string, at time.Time, t usage.Tokens) (micros int64, known bool) {
	day, best := at.UTC().Format(time.DateOnly), -1
	// Some services name models as vendor/model; a pattern is about all of it, in which '/' is no border.
	name := strings.ReplaceAll(model, "/", ":")
	for i, p := range prices {
		if ok, err := path.Match(strings.ReplaceAll(cmp.Or(p.Model, "*"), "/", ":"), name); err != nil || !ok || p.From > day {
			continue
		}
		if best < 0 || p.From > prices[best].From {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	p := prices[best]
	return int64(math.Round(p.Input*float64(t.Input) + p.Output*float64(t.Output) + p.CacheRead*float64(t.CacheRead) + p.CacheWrite*float64(t.CacheWrite))), true
}

// Match reports whether a model is in a list of patterns; an empty list has every model.
func Match(patterns []string, model string) bool {
	name := strings.ReplaceAll(model, "/", ":")
	for _, p := range patterns {
		if ok, err := path.Match(strings.ReplaceAll(p, "/", ":"), name); err == nil && ok {
			return true
		}
	}
	return len(patterns) == 0
}

// CheckPattern returns an error if a pattern cannot be read.
func CheckPattern(pattern string) error {
	if pattern == "" {
		return fmt.Errorf("must not be empty")
	}
	if _, err := path.Match(strings.ReplaceAll(pattern, "/", ":"), ""); err != nil {
		return fmt.Errorf("must be a pattern such as %q", "name-*")
	}
	return nil
}

// CheckPrice returns an error if a price cannot be right.
func CheckPrice(p setting.ModelPrice) error {
	if err := CheckPattern(cmp.Or(p.Model, "*")); err != nil {
		return fmt.Errorf("model = %q: %w", p.Model, err)
	}
	if p.From != "" {
		if _, err := time.Parse(time.DateOnly, p.From); err != nil {
			return fmt.Errorf("from = %q: must be a day, YYYY-MM-DD", p.From)
		}
	}
	for _, v := range []float64{p.Input, p.Output, p.CacheRead, p.CacheWrite} {
		if !(v >= 0 && v <= 1e6) {
			return fmt.Errorf("%v: must be from 0 to 1000000, for a million tokens", v)
		}
	}
	return nil
}
