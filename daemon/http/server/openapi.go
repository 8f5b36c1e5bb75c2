package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"time"

	"polis/daemon/api"
)

type object = map[string]any

var pathParam = regexp.MustCompile(`\{([a-z]+)\}`)

// openAPI answers with the document below.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) error {
	doc, err := OpenAPI()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(doc) //nolint:errcheck // the client left
	return nil
}

// OpenAPI describes the API as OpenAPI 3.0, made of the route table and of the
// types themselves. The same source makes the same bytes.
func OpenAPI() ([]byte, error) {
	b := &describer{schemas: object{}}
	paths, known := object{}, shapes()
	for _, rt := range Routes() {
		sh, ok := known[rt.Pattern]
		if !ok {
			return nil, api.Errorf(api.CodeInternal, "route %s has no shape", rt.Pattern)
		}
		method, path, _ := strings.Cut(rt.Pattern, " ")
		at, ok := paths[path].(object)
		if !ok {
			at = object{}
			paths[path] = at
		}
		at[strings.ToLower(method)] = b.operation(rt, sh, method, path)
	}
	b.schema(reflect.TypeFor[api.Error]())
	b.codes()
	doc := object{
		"openapi": "3.0.3",
		"info": object{"title": "polisd", "version": "1",
			"description": "The admin API of polisd, served on a unix socket (/run/polis/polisd.sock). Who may call is decided by the credentials of the socket's peer: " +
				"root and the group polis, and members of read_group for what only reads; x-access names the class of a route. Unknown fields of a request are refused; unknown fields of an answer, codes and types of events must be ignored."},
		"servers": []any{object{"url": "http://polisd", "description": "the host does not matter: the connection is the unix socket"}},
		"paths":   paths,
		// What a sandbox's own socket has, of these types. It is another server.
		"x-sandbox-paths": b.sandboxPaths(),
		"components":      object{"schemas": b.schemas},
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("describe the API: %w", err)
	}
	return append(out, '\n'), nil
}

// describer collects the schemas of the types it meets.
type describer struct{ schemas object }

func (b *describer) operation(rt Route, sh shape, method, path string) object {
	var params []any
	for _, m := range pathParam.FindAllStringSubmatch(path, -1) {
		kind := "string"
		if m[1] == "internal" {
			kind = "integer"
		}
		params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": kind}})
	}
	for _, q := range sh.query {
		params = append(params, object{"name": q.name, "in": "query", "description": q.about, "schema": object{"type": q.kind}})
	}
	op := object{"summary": rt.About, "operationId": operationID(method, path), "x-access": rt.Access.String(), "responses": b.responses(sh)}
	if params != nil {
		op["parameters"] = params
	}
	if sh.in != nil {
		op["requestBody"] = object{"required": !sh.optional, "content": content("application/json", b.schema(reflect.TypeOf(sh.in)))}
	}
	return op
}

// operationID is the method and the path's words, such as postAgentsMerge.
func operationID(method, path string) string {
	id := strings.ToLower(method)
	for _, w := range strings.FieldsFunc(pathParam.ReplaceAllString(strings.TrimPrefix(path, "/v1"), "by-$1"), func(r rune) bool { return strings.ContainsRune("/-.", r) }) {
		id += strings.ToUpper(w[:1]) + w[1:]
	}
	return id
}

func (b *describer) responses(sh shape) object {
	schema := object{"type": "object"}
	if sh.out != nil {
		schema = b.schema(reflect.TypeOf(sh.out))
	}
	if sh.list != "" {
		schema = object{"type": "object", "required": []string{sh.list}, "properties": object{sh.list: object{"type": "array", "items": schema}}}
	}
	body := object{}
	if sh.text == "" || sh.out != nil {
		body = content("application/json", schema)
	}
	if sh.text != "" {
		body[sh.text] = object{"schema": object{"type": "string"}}
	}
	if sh.steps {
		body["application/x-ndjson"] = object{"schema": object{"type": "object",
			"description": "lines: any number of {\"progress\":text}, then one of {\"result\":...} or {\"error\":...}"}}
	}
	out := object{"default": object{"description": "refused", "content": content("application/json", object{"$ref": "#/components/schemas/Error"})}}
	if sh.made {
		out["201"] = object{"description": "made", "content": body}
	}
	if !sh.made || sh.steps {
		out["200"] = object{"description": "done", "content": body}
	}
	return out
}

func content(kind string, schema object) object { return object{kind: object{"schema": schema}} }

var timeType = reflect.TypeFor[time.Time]()

// schema describes a type, and puts a struct beside the others by its name.
func (b *describer) schema(t reflect.Type) object {
	switch {
	case t == timeType:
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[api.Code]():
		return object{"$ref": "#/components/schemas/Code"}
	case t == reflect.TypeFor[time.Duration]():
		return object{"type": "integer", "format": "int64", "description": "nanoseconds"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return b.schema(t.Elem())
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": b.schema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": b.schema(t.Elem())}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Uint32:
		return object{"type": "integer", "format": "int64"}
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Uint, reflect.Uint8, reflect.Uint16:
		return object{"type": "integer"}
	case reflect.Struct:
		return b.structure(t)
	}
	return object{} // anything
}

func (b *describer) structure(t reflect.Type) object {
	ref := object{"$ref": "#/components/schemas/" + t.Name()}
	if _, done := b.schemas[t.Name()]; done {
		return ref
	}
	out := object{"type": "object"}
	b.schemas[t.Name()] = out
	props, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || f.Anonymous {
			continue
		}
		if name == "" {
			name = f.Name
		}
		props[name] = b.schema(f.Type)
		if !strings.Contains(opts, "omit") {
			required = append(required, name)
		}
	}
	out["properties"] = props
	if len(required) > 0 {
		out["required"] = required
	}
	return ref
}

func (b *describer) codes() {
	var codes []any
	for _, c := range api.Codes() {
		codes = append(codes, string(c.Code))
	}
	b.schemas["Code"] = object{"type": "string", "description": "docs/errors.md says what they mean. There may be more in a newer polisd.", "x-known": codes}
}
