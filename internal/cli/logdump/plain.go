package logdump

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/internal/types"
)

// plain prints a decoded record as JSON for people: fields in their order, ids
// as Kafka writes them, nothing about tagged fields that are not there.
type plain struct{ v any }

// String is the JSON text.
func (p plain) String() string {
	var b strings.Builder
	writePlain(&b, reflect.ValueOf(p.v))
	return b.String()
}

// MarshalJSON is String as JSON.
func (p plain) MarshalJSON() ([]byte, error) { return []byte(p.String()), nil }

var uuidType = reflect.TypeFor[types.UUID]()

func writePlain(b *strings.Builder, v reflect.Value) {
	if v.IsValid() && v.Type() == uuidType {
		fmt.Fprintf(b, "%q", v.Interface())
		return
	}
	switch v.Kind() {
	case reflect.Invalid:
		b.WriteString("null")
	case reflect.Pointer, reflect.Interface:
		writePlain(b, v.Elem())
	case reflect.Struct:
		writeStruct(b, v)
	case reflect.Map:
		writeMap(b, v)
	case reflect.Slice, reflect.Array:
		writeList(b, v)
	default:
		data, err := json.Marshal(v.Interface())
		if err != nil {
			data = []byte("null")
		}
		b.Write(data)
	}
}

func writeStruct(b *strings.Builder, v reflect.Value) {
	b.WriteByte('{')
	first := true
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Name == "UnknownTags" && v.Field(i).Len() == 0 {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		fmt.Fprintf(b, "%q:", f.Name)
		writePlain(b, v.Field(i))
	}
	b.WriteByte('}')
}

func writeMap(b *strings.Builder, v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
	b.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, "%q:", fmt.Sprint(k))
		writePlain(b, v.MapIndex(k))
	}
	b.WriteByte('}')
}

func writeList(b *strings.Builder, v reflect.Value) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		b.WriteString("null")
		return
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		data := make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(data), v)
		fmt.Fprintf(b, "%q", base64.StdEncoding.EncodeToString(data))
		return
	}
	b.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			b.WriteByte(',')
		}
		writePlain(b, v.Index(i))
	}
	b.WriteByte(']')
}
