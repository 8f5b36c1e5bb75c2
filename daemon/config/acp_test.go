package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTasksAreGivenByACP(t *testing.T) {
	run, speaks := []string{"x"}, []string{"x", "--acp"}
	for name, tc := range map[string]struct {
		typ         BaseType
		asks, byACP bool
	}{
		"a type without acp":                {BaseType{Run: run, Permissions: Permissions{Kind: "acp"}}, true, false},
		"no other way":                      {BaseType{ACP: speaks}, false, true},
		"a role that asks":                  {BaseType{Run: run, ACP: speaks, Permissions: Permissions{Kind: "acp"}}, true, true},
		"a role that does not":              {BaseType{Run: run, ACP: speaks, Permissions: Permissions{Kind: "acp"}}, false, false},
		"a program with a hook has a gate":  {BaseType{Run: run, ACP: speaks, Permissions: Permissions{Kind: "hook"}}, true, false},
		"and no way but this, in both ways": {BaseType{ACP: speaks, Permissions: Permissions{Kind: "hook"}}, true, true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.byACP, tc.typ.ByACP(tc.asks)) })
	}
}
