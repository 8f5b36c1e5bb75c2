package models

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/gateway/ledger"
)

// Usage sums what the agents with logs in the directories used, by one of api.UsageBy, since a day
// (YYYY-MM-DD in UTC; "": ever). The logs of an agent outlive it, and so do its counts. A ledger that
// cannot be read is left out and named by the error.
func Usage(dirs []string, by, since string) ([]api.ModelUse, error) {
	if !slices.Contains(api.UsageBy, by) {
		return nil, api.Errorf(api.CodeBadRequest, "by = %q: must be one of %q", api.Shorten(by, 32), api.UsageBy)
	}
	if since != "" {
		if _, err := time.Parse(time.DateOnly, since); err != nil {
			return nil, api.Errorf(api.CodeBadRequest, "since = %q: must be a day, YYYY-MM-DD", api.Shorten(since, 32))
		}
	}
	sums, micros, errs := map[string]*ledger.Counts{}, map[string]map[string]int64{}, []error(nil)
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, e := range entries {
			if !e.IsDir() || api.CheckName(e.Name()) != nil {
				continue
			}
			rows, err := ledger.Read(filepath.Join(dir, e.Name()))
			if err != nil {
				errs = append(errs, fmt.Errorf("agent %s: %w", e.Name(), err))
				continue
			}
			for _, r := range rows {
				if r.Day < since {
					continue
				}
				key := map[string]string{"agent": e.Name(), "task": r.Task, "model": r.Model, "day": r.Day}[by]
				if sums[key] == nil {
					sums[key], micros[key] = &ledger.Counts{}, map[string]int64{}
				}
				sums[key].Add(r.Counts)
				if r.Micros > 0 {
					micros[key][r.Currency] += r.Micros
				}
			}
		}
	}
	out := make([]api.ModelUse, 0, len(sums))
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, use(key, *sums[key], micros[key]))
	}
	if by == "agent" || by == "model" || by == "task" { // those that use most first
		slices.SortStableFunc(out, func(a, b api.ModelUse) int { return cmp.Compare(tokens(b), tokens(a)) })
	}
	return out, errors.Join(errs...)
}

func tokens(u api.ModelUse) int64 {
	return u.InputTokens + u.OutputTokens + u.CacheReadTokens + u.CacheWriteTokens
}

func use(key string, c ledger.Counts, micros map[string]int64) api.ModelUse {
	u := api.ModelUse{Key: key, Requests: c.Requests, Errors: c.Errors, Refused: c.Refused, Retries: c.Retries, Cut: c.Cut, Estimated: c.Estimated,
		InputTokens: c.Input, OutputTokens: c.Output, CacheReadTokens: c.CacheRead, CacheWriteTokens: c.CacheWrite}
	if c.Answers > 0 {
		u.FirstTokenMS = c.FirstMicros / c.Answers / 1000
	}
	for currency, n := range micros {
		if u.Cost == nil {
			u.Cost = map[string]float64{}
		}
		u.Cost[currency] = float64(n) / 1e6
	}
	return u
}
