package nonzero

import (
	"fmt"
	"reflect"
	"time"
)

// maxDepth bounds types that contain themselves.
const maxDepth = 10

// Of returns a T in which every exported field, at any depth, has a value that is not zero: slices and maps have one
// element. No two strings and no two numbers in it are equal, as far as their types have room.
func Of[T any]() T {
	var v T
	n := 0
	fill(reflect.ValueOf(&v).Elem(), &n, 0)
	return v
}

func fill(v reflect.Value, n *int, depth int) {
	if !v.CanSet() || depth > maxDepth {
		return
	}
	*n++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Int8:
		v.SetInt(int64(*n%127 + 1))
	case reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(uint64(*n))
	case reflect.Uint8:
		v.SetUint(uint64(*n%255 + 1))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", *n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n, depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n, depth+1)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n, depth+1)
		}
	case reflect.Map:
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n, depth+1)
		fill(elem, n, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, elem)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(int64(*n), 0).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), n, depth+1)
		}
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(fmt.Sprintf("s%d", *n)))
		}
	default: // functions and channels are no data
	}
}

// Missing returns the names of v's fields that are zero; those of embedded structs are its own.
func Missing(v any) []string {
	var out []string
	r := reflect.ValueOf(v)
	for _, f := range reflect.VisibleFields(r.Type()) {
		if f.IsExported() && !f.Anonymous && r.FieldByIndex(f.Index).IsZero() {
			out = append(out, f.Name)
		}
	}
	return out
}
