package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/setting"
)

func TestASharedBudgetIsChecked(t *testing.T) {
	c := Default()
	c.Roles = map[string]Role{"team": {SharedBudget: setting.SharedBudget{DayTokens: 1e15, DayMoney: 0.0000001}}}
	require.NoError(t, c.checkGateway())
	require.Equal(t, map[string]int64{"day_tokens": 1e15, "day_money": 1}, c.Roles["team"].SharedBudget.Amounts())
	require.Empty(t, c.Roles["other"].SharedBudget.Amounts())
	for field, b := range map[string]setting.SharedBudget{"day_tokens": {DayTokens: -1}, "day_money": {DayMoney: 1e10}} {
		c.Roles = map[string]Role{"team": {SharedBudget: b}}
		require.ErrorContains(t, c.checkGateway(), "roles.team.shared_budget."+field)
	}
}
