package policylearn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"polis/netbridge/egress"
)

// spreadNames is how many names directly below a domain make it "*.domain".
const spreadNames = 8

// Egress returns the list of an egress policy that allows the names: "none" without any. A domain
// with at least 8 names directly below it becomes "*.domain", unless it is one below which
// different parties register names, such as "com". ok is false if a list cannot allow all of
// them.
func Egress(names []string) (list []string, ok bool) {
	left := map[string]bool{}
	for _, n := range names {
		left[strings.ToLower(strings.TrimSuffix(n, "."))] = true
	}
	for spread := spreadNames; ; spread-- {
		if list = joined(left, spread); len(list) <= egress.MaxEntries || spread <= 2 {
			break
		}
	}
	if len(list) > egress.MaxEntries {
		return nil, false
	}
	if list = slices.DeleteFunc(list, func(e string) bool {
		_, err := egress.Parse([]string{e})
		return err != nil // it is no name that a list can have
	}); len(list) == 0 {
		return []string{egress.None}, len(names) == 0
	}
	_, err := egress.Parse(list)
	return list, err == nil
}

func joined(names map[string]bool, spread int) (out []string) {
	below := map[string]int{}
	for n := range names {
		if _, up, ok := strings.Cut(n, "."); ok && private(up) {
			below[up]++
		}
	}
	wide := map[string]bool{}
	for n := range names {
		_, up, _ := strings.Cut(n, ".")
		switch {
		case below[up] < spread:
			out = append(out, n)
		case !wide[up]:
			wide[up] = true
			out = append(out, "*."+up)
		}
	}
	slices.Sort(out)
	return out
}

// private reports whether all names below a domain belong to one party.
func private(domain string) bool {
	suffix, _ := publicsuffix.PublicSuffix(domain)
	return suffix != domain
}

// CheckNames returns the names that an egress policy does not allow, with its verdict.
func CheckNames(list, names []string) (refused map[string]string, err error) {
	p, err := egress.Parse(list)
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	refused = map[string]string{}
	for _, n := range names {
		if _, err := netip.ParseAddr(n); err == nil || p.Name(n) {
			continue
		}
		refused[n] = "deny"
		if p.Asks(n) {
			refused[n] = "ask"
		}
	}
	return refused, nil
}
