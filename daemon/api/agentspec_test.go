package api

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/internal/nonzero"
)

// TestEveryKeyOfARequestForAnAgentIsRead: an outer field with the name or the key of one of AgentSpec would hide it.
func TestEveryKeyOfARequestForAnAgentIsRead(t *testing.T) {
	spec := nonzero.Of[AgentSpec]()
	require.Empty(t, nonzero.Missing(spec))
	b, err := json.Marshal(spec)
	require.NoError(t, err)
	var add AddRequest
	require.NoError(t, json.Unmarshal(b, &add))
	require.Equal(t, spec, add.AgentSpec)
	var worker DelegateRequest
	require.NoError(t, json.Unmarshal(b, &worker))
	require.Equal(t, spec, worker.AgentSpec)

	var got DelegateRequest
	b, err = json.Marshal(nonzero.Of[DelegateRequest]())
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &got))
	require.Equal(t, nonzero.Of[DelegateRequest](), got)
}

// TestARacerIsWhatTheRequestSays: each field that a request for a race has in common with one for an agent.
func TestARacerIsWhatTheRequestSays(t *testing.T) {
	req := nonzero.Of[RaceRequest]()
	spec := reflect.ValueOf(req.Spec())
	common := 0
	for _, f := range reflect.VisibleFields(spec.Type()) {
		own := reflect.ValueOf(req).FieldByName(f.Name)
		if f.Anonymous || !own.IsValid() {
			continue
		}
		common++
		require.Equal(t, own.Interface(), spec.FieldByIndex(f.Index).Interface(), f.Name)
	}
	require.Equal(t, 6, common)
}
