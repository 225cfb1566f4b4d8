package wire

import (
	"math/rand/v2"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var tagsType = reflect.TypeOf(kmsg.Tags{})

// fill puts random values into every field of a kmsg struct: what a message of
// that version cannot carry is dropped when it is encoded.
func fill(v reflect.Value, r *rand.Rand, elements int) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		setDefaults(v)
		fill(v.Elem(), r, elements)
	case reflect.Struct:
		if v.Type() == tagsType {
			return
		}
		for i := range v.NumField() {
			f := v.Field(i)
			if f.CanSet() && v.Type().Field(i).Name != "Version" {
				fill(f, r, elements)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte{1, 2, 3}[:r.IntN(4)])
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), elements, elements))
		for i := range elements {
			setDefaults(v.Index(i).Addr())
			fill(v.Index(i), r, elements)
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(r.Uint64N(256))
		}
	case reflect.String:
		v.SetString("text-ü-"[:r.IntN(5)])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 1)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(r.Int64N(100) + 1)
	case reflect.Uint16, reflect.Uint32:
		v.SetUint(r.Uint64N(100) + 1)
	case reflect.Float64:
		v.SetFloat(r.Float64())
	}
}

func setDefaults(ptr reflect.Value) {
	if d, ok := ptr.Interface().(interface{ Default() }); ok {
		d.Default()
	}
}

// filledRequest is a request of key and version with something in every field.
func filledRequest(key, version int16, seed uint64, elements int) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	fill(reflect.ValueOf(req), rand.New(rand.NewPCG(seed, 1)), elements)
	req.SetVersion(version)
	return req
}

// filledResponse is filledRequest for the answer.
func filledResponse(key, version int16, seed uint64, elements int) kmsg.Response {
	resp := kmsg.ResponseForKey(key)
	resp.SetVersion(version)
	fill(reflect.ValueOf(resp), rand.New(rand.NewPCG(seed, 2)), elements)
	resp.SetVersion(version)
	return resp
}
