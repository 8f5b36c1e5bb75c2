package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestARaceShowsTheCostThatPolisCounted(t *testing.T) {
	reported := 0.5
	var buf bytes.Buffer
	racePage(&page{w: &buf, now: time.Now()}, api.Race{ID: "r1", Workspace: "w", State: api.RaceEnded, Racers: []api.Racer{
		{Agent: "counted", CostUSD: &reported, Models: &api.ModelUse{Requests: 1, Cost: map[string]float64{"EUR": 2}}},
		{Agent: "unpriced", CostUSD: &reported, Models: &api.ModelUse{Requests: 1, Unpriced: 1}},
		{Agent: "reported", CostUSD: &reported},
		{Agent: "neither"},
	}})
	for name, cost := range map[string]string{"counted": "2\\.00 EUR", "unpriced": "\\$0\\.50", "reported": "\\$0\\.50", "neither": "-"} {
		require.Regexp(t, `(?m)^`+name+` .* - +`+cost+` +-$`, buf.String())
	}
}

func TestATaskShowsWhatItUsedOfModels(t *testing.T) {
	var buf bytes.Buffer
	taskPage(&page{w: &buf, now: time.Now()}, api.Task{ID: "a.1", Models: &api.ModelUse{Requests: 2, InputTokens: 1234, OutputTokens: 5, CacheReadTokens: 6, Cost: map[string]float64{"EUR": 0.5}, Unpriced: 1, Cut: 1}}, "")
	require.Contains(t, buf.String(), "models      2 requests, 1,234 tokens in, 5 out, 6 cached\n")
	require.Contains(t, buf.String(), "models cost >0.50 EUR\n")
	require.Contains(t, buf.String(), "models note 1 cut, 1 without a price\n")
}
