package tui

import (
	"fmt"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestWhatAgentsUsedOfModelsIsShownWhereThereIsRoom(t *testing.T) {
	f := twoAgents()
	f.agents[1].Models = &api.ModelUse{Requests: 12, InputTokens: 1_500_000, OutputTokens: 2500, Cost: map[string]float64{"EUR": 1.25}, Unpriced: 1,
		Budget: &api.ModelBudgetUse{Percent: 81, Bound: "day_tokens"}}
	inBubble(t, f, func(t *testing.T, s *screen) {
		for _, width := range []int{20, 40, 80, costFrom - 1, costFrom, 200} {
			s.send(tea.WindowSizeMsg{Width: width, Height: 24})
			for _, line := range s.m.lines() {
				require.LessOrEqual(t, ansi.StringWidth(line), width)
			}
			if width == 80 || width == costFrom {
				snapshot(t, s, fmt.Sprintf("models%d.txt", width))
			}
		}
	})
}

func TestWithoutAModelGatewayTheScreenHasNoCosts(t *testing.T) {
	inBubble(t, twoAgents(), func(t *testing.T, s *screen) {
		s.send(tea.WindowSizeMsg{Width: 200, Height: 24})
		require.NotContains(t, s.text(), "TOKENS")
		require.NotContains(t, s.text(), "models")
	})
}
