package modeltext

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"polis/daemon/api"
)

// None is the text of what is not known, or was not used.
const None = "-"

// Tokens writes a number in at most 6 cells: 999, 12.3k, 1.5M.
func Tokens(n int64) string {
	f, unit := float64(n), ""
	for _, u := range []string{"k", "M", "G", "T", "P", "E"} {
		if f < 999.5 {
			break
		}
		f, unit = f/1000, u
	}
	if unit == "" {
		return fmt.Sprint(n)
	}
	if f < 99.95 {
		return fmt.Sprintf("%.1f%s", f, unit)
	}
	return fmt.Sprintf("%.0f%s", f, unit)
}

// TokensOf does so for all tokens of a use; None if nothing was used or is counted.
func TokensOf(u *api.ModelUse) string {
	if u == nil || u.Requests == 0 {
		return None
	}
	return Tokens(u.Tokens())
}

// Cost writes what a use cost, for each currency. A cost without which polis knows no price is never 0: it is
// None, or ">" is before what is known of it.
func Cost(u *api.ModelUse) string {
	if u == nil || len(u.Cost) == 0 {
		return None
	}
	var parts []string
	for _, currency := range slices.Sorted(maps.Keys(u.Cost)) {
		parts = append(parts, strings.TrimSpace(money(u.Cost[currency])+" "+currency))
	}
	text := strings.Join(parts, " ")
	if u.Unpriced > 0 {
		return ">" + text
	}
	return text
}

func money(f float64) string {
	if f > 0 && f < 0.005 {
		return fmt.Sprintf("%.4f", max(f, 0.0001))
	}
	return fmt.Sprintf("%.2f", f)
}

// Budget writes how far a budget is used; "" if there is none.
func Budget(u *api.ModelUse) string {
	if u == nil || u.Budget == nil {
		return ""
	}
	text := fmt.Sprintf("%d%% of %s", u.Budget.Percent, u.Budget.Bound)
	if u.Budget.Role != "" {
		text += " of role " + u.Budget.Role
	}
	return text
}
