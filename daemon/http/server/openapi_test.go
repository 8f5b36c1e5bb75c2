package server

import (
	"encoding/json"
	flags "flag"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/store/events"
)

var update = flags.Bool("update", false, "write docs/openapi.json again")

const openAPIFile = "../../../docs/openapi.json"

// TestTheOpenAPIDocumentIsFresh fails when the committed document is not what
// the route table and the types make.
func TestTheOpenAPIDocumentIsFresh(t *testing.T) {
	want, err := OpenAPI()
	require.NoError(t, err, "daemon/http/server/shapes.go has what goes in and out of routes")
	if *update {
		require.NoError(t, os.WriteFile(openAPIFile, want, 0o644))
	}
	got, err := os.ReadFile(openAPIFile)
	require.NoError(t, err)
	require.True(t, string(want) == string(got), "docs/openapi.json is stale; run: go test ./daemon/http/server -run OpenAPI -update")
}

func TestEveryRouteHasAShapeAndEveryShapeARoute(t *testing.T) {
	known := shapes()
	for _, rt := range Routes() {
		require.Contains(t, known, rt.Pattern)
		delete(known, rt.Pattern)
	}
	require.Empty(t, known)
}

// TestTheOpenAPIDocumentIsWhole: every reference has its schema, every
// parameter of a path is declared and every operation has a name of its own.
func TestTheOpenAPIDocumentIsWhole(t *testing.T) {
	b, err := OpenAPI()
	require.NoError(t, err)
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string                                  `json:"operationId"`
			Access      string                                  `json:"x-access"`
			Parameters  []struct{ Name, In string }             `json:"parameters"`
			Responses   map[string]struct{ Description string } `json:"responses"`
		}
		Components struct{ Schemas map[string]any }
	}
	require.NoError(t, json.Unmarshal(b, &doc))
	for _, part := range strings.Split(string(b), `"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		require.Contains(t, doc.Components.Schemas, name)
	}
	ids, n := map[string]bool{}, 0
	for path, ops := range doc.Paths {
		for method, op := range ops {
			n++
			require.False(t, ids[op.OperationID], op.OperationID)
			ids[op.OperationID] = true
			require.Contains(t, []string{"read", "admin", "root"}, op.Access)
			require.Contains(t, op.Responses, "default")
			require.GreaterOrEqual(t, len(op.Responses), 2, "%s %s", method, path)
			declared := 0
			for _, p := range op.Parameters {
				if p.In == "path" {
					declared++
					require.Contains(t, path, "{"+p.Name+"}")
				}
			}
			require.Equal(t, strings.Count(path, "{"), declared, path)
		}
	}
	require.Len(t, Routes(), n)
}

// TestTheEndpointsOfTheDesignAreThere under their names.
func TestTheEndpointsOfTheDesignAreThere(t *testing.T) {
	have := map[string]bool{}
	for _, rt := range Routes() {
		have[rt.Pattern] = true
	}
	for _, p := range []string{"POST /v1/agents/{name}/merge", "POST /v1/agents/{name}/discard", "GET /v1/events", "GET /v1/openapi.json"} {
		require.True(t, have[p], p)
	}
}

func TestSchemasSayWhatTheTypesSay(t *testing.T) {
	d := &describer{schemas: object{}}
	require.Equal(t, object{"$ref": "#/components/schemas/Lock"}, d.schema(reflect.TypeFor[*api.Lock]()))
	lock := d.schemas["Lock"].(object)
	require.Equal(t, []string{"workspace", "path", "holder", "lock_type", "acquired_at", "token"}, lock["required"])
	props := lock["properties"].(object)
	require.Equal(t, object{"type": "string", "format": "date-time"}, props["expires_at"])
	require.Equal(t, object{"type": "array", "items": object{"$ref": "#/components/schemas/Waiter"}}, props["waiting"])
}

func TestTheDocumentIsServed(t *testing.T) {
	c := serve(t, streaming{hub: events.New(0)})
	resp, err := c.Get("http://polis/v1/openapi.json")
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	want, err := OpenAPI()
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}
