package launch

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"polis/daemon/agent"
	"polis/daemon/agent/models"
	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
	"polis/daemon/gateway/budget"
	"polis/daemon/gateway/ledger"
	"polis/daemon/shim/dial"
	"polis/daemon/store/layout"
)

// newSharedBudgets returns the keeper of the budgets that roles share.
func (s *Shims) newSharedBudgets() *models.BudgetKeeper {
	return &models.BudgetKeeper{File: layout.SharedBudgets(s.Config().WorkspacesDir), Log: s.Log, Now: time.Now,
		Limits: func(role string) map[string]int64 { return s.Config().Roles[role].SharedBudget.Amounts() },
		Agents: func(role string) (out []models.BudgetAgent) {
			for _, p := range s.Agents().Everyone() {
				if p.Role == role {
					out = append(out, models.BudgetAgent{Dir: p.Logs, Up: p.Up})
				}
			}
			return out
		},
		Alive: func(ctx context.Context, dir string) bool {
			name := filepath.Base(dir)
			if s.otherDir(name, dir) {
				return false
			}
			return s.Lives(ctx, name)
		},
		Used: func(dir, day string, open bool) (wire.ShareUse, error) { return s.Book.Day(dir, day, open) },
		Send: func(ctx context.Context, dir string, shares wire.Shares) (wire.ShareUse, error) {
			name := filepath.Base(dir)
			if s.otherDir(name, dir) {
				return wire.ShareUse{}, fmt.Errorf("agent %s was removed", name)
			}
			sh := dial.New(s.Run.AgentSocket(name))
			defer sh.Close()
			return sh.ShareModels(ctx, shares)
		},
		Reached: func(dir, role, bound string, used, limit int64, level int) {
			st := budget.Shared(role, bound, "", used, limit)
			what := fmt.Sprintf("%d %% of the model budget of role %s is used", st.Percent, role)
			if st.Spent() {
				what = fmt.Sprintf("the model budget of role %s is spent", role)
			}
			s.Publish(api.Event{Type: api.EventModelBudget, Agent: filepath.Base(dir), Message: what + ": " + st.Text,
				Data: map[string]any{"percent": st.Percent, "bound": bound, "text": st.Text, "role": role, "level": level}})
		}}
}

// otherDir reports whether an agent of this name has its logs elsewhere: the one with these logs was removed.
func (s *Shims) otherDir(name, dir string) bool {
	ws, err := s.Agents().WorkspaceOf(name)
	if err != nil {
		return false // agents are not all known while polisd starts
	}
	root, ok := s.Roots()[ws]
	return ok && filepath.Clean(root.Logs(name)) != dir
}

// GrantModels grants an agent its next part of the budget that its role shares.
func (s *Shims) GrantModels(ctx context.Context, a *agent.Agent) error {
	return s.shared.Grant(ctx, filepath.Clean(a.WS.Root.Logs(a.Name())), a.Copy().Role)
}

// RaiseModels raises a bound of the budget that a role shares.
func (s *Shims) RaiseModels(ctx context.Context, role, bound, day string, to float64) error {
	amount := to
	if bound == setting.BoundDayMoney {
		amount = math.Round(to * 1e6)
	}
	if bound != setting.BoundDayTokens && bound != setting.BoundDayMoney || day > ledger.Day(time.Now()) || !(amount > 0 && amount <= 1e18) {
		return fmt.Errorf("raise %s of role %s to %v: it is no bound", api.Shorten(bound, 32), role, to)
	}
	return s.shared.Raise(ctx, role, bound, day, int64(amount))
}

// AddSharedUse adds the budget that an agent's role shares, if that is used more than its own.
func AddSharedUse(u *api.ModelUse, role string, uses []models.BudgetUse) {
	for _, x := range uses {
		if x.Role != role {
			continue
		}
		st := budget.Shared(role, x.Bound, "", x.Used, x.Limit)
		if u.Budget == nil || st.Percent > u.Budget.Percent {
			u.Budget = &api.ModelBudgetUse{Percent: st.Percent, Bound: st.Bound, Role: role, Text: st.Text}
		}
	}
}

// SharedUses returns how far the budgets that roles share are used today.
func (s *Shims) SharedUses(ctx context.Context) []models.BudgetUse {
	var roles []string
	for name, r := range s.Config().Roles {
		if r.SharedBudget != (setting.SharedBudget{}) {
			roles = append(roles, name)
		}
	}
	if len(roles) == 0 {
		return nil
	}
	uses, err := s.shared.Uses(ctx, roles)
	if err != nil {
		s.Log.Warn("use of shared model budgets not read", "err", err)
	}
	return uses
}
