package reference

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"polis/daemon/api/setting"
	"polis/daemon/config"
)

// The kinds of values, in words for people.
const (
	kindString   = "string"
	kindBool     = "boolean"
	kindInt      = "integer"
	kindNumber   = "number"
	kindDuration = "duration"
	kindWord     = "duration or word" // a duration, or one of Values
	kindWords    = "string or list of strings"
	kindStrings  = "list of strings"
	kindInts     = "list of integers"
	kindTables   = "list of tables"
	kindMap      = "table of strings"
	kindLists    = "table of lists of strings"
	kindAny      = "any value"
)

// A field is a key that a struct has.
type field struct {
	table, name, kind string
	// value is the default in TOML; "" if there is none.
	value string
}

func (f field) key() string { return join(f.table, f.name) }

func join(table, name string) string { return strings.TrimPrefix(table+"."+name, ".") }

var (
	durationType = reflect.TypeFor[setting.Duration]()
	wordTypes    = []reflect.Type{reflect.TypeFor[setting.Hold](), reflect.TypeFor[setting.OnConflict]()}
	egressType   = reflect.TypeFor[config.Egress]()
)

// fields lists the keys of a struct and of its tables, as the TOML decoder reads them. Tables are the
// tables that it has, in order.
func fields(table string, v reflect.Value) (keys []field, tables []string) {
	tables = []string{table}
	var below []func()
	for i := range v.NumField() {
		sf, fv := v.Type().Field(i), v.Field(i)
		name := sf.Tag.Get("toml")
		if name == "-" || name == "" && !sf.Anonymous {
			continue
		}
		if name == "" {
			k, t := fields(table, fv)
			keys = append(keys, k...)
			below = append(below, func() { tables = append(tables, t[1:]...) })
			continue
		}
		sub := func(path string, v reflect.Value) {
			below = append(below, func() {
				k, t := fields(path, v)
				keys, tables = append(keys, k...), append(tables, t...)
			})
		}
		typ := sf.Type
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		switch {
		case typ.Kind() == reflect.Struct:
			sub(join(table, name), fv)
		case typ.Kind() == reflect.Map && typ.Elem().Kind() == reflect.Struct:
			sub(join(table, name)+".NAME", reflect.Zero(typ.Elem()))
		case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Struct:
			keys = append(keys, field{table, name, kindTables, "[]"})
			sub(join(table, name), reflect.Zero(typ.Elem()))
		default:
			keys = append(keys, field{table, name, kindOf(typ), literal(fv)})
		}
	}
	for _, f := range below {
		f()
	}
	return keys, tables
}

func kindOf(t reflect.Type) string {
	switch {
	case t == durationType:
		return kindDuration
	case slices.Contains(wordTypes, t):
		return kindWord
	case t == egressType:
		return kindWords
	}
	switch t.Kind() {
	case reflect.String:
		return kindString
	case reflect.Bool:
		return kindBool
	case reflect.Float64:
		return kindNumber
	case reflect.Interface:
		return kindAny
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return kindStrings
		}
		return kindInts
	case reflect.Map:
		if t.Elem().Kind() == reflect.String {
			return kindMap
		}
		return kindLists
	}
	return kindInt
}

// literal writes a value as TOML, "" for one that is not set.
func literal(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil(), v.Kind() == reflect.Interface:
		return ""
	case v.Kind() == reflect.Pointer:
		return literal(v.Elem())
	case v.Type() == durationType:
		return strconv.Quote(shortDuration(time.Duration(v.Int())))
	case v.Type() == egressType && v.Len() == 1:
		return literal(v.Index(0))
	}
	switch v.Kind() {
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Slice:
		words := make([]string, 0, v.Len())
		for i := range v.Len() {
			words = append(words, literal(v.Index(i)))
		}
		return "[" + strings.Join(words, ", ") + "]"
	case reflect.Map:
		return "{}"
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'f', 1, 64)
	}
	return fmt.Sprint(v.Interface())
}

// shortDuration is 10m and not 10m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
