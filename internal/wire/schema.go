package wire

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
)

// requestSchemas lists the fields of every request body of Kafka 4.3, so that
// a body can be stepped over, bounded and charged before kmsg allocates for it.
//
//go:embed requests.schema
var requestSchemas string

type kind uint8

const (
	kindBool kind = iota
	kindInt8
	kindInt16
	kindInt32
	kindInt64
	kindUUID
	kindString
	kindBytes
	kindStruct
)

// kinds gives the wire size of fixed kinds and the size in a Go struct.
var kinds = map[string]struct {
	kind  kind
	fixed int
	heap  int
}{
	"bool": {kindBool, 1, 8}, "int8": {kindInt8, 1, 8}, "int16": {kindInt16, 2, 8}, "uint16": {kindInt16, 2, 8},
	"int32": {kindInt32, 4, 8}, "int64": {kindInt64, 8, 8}, "float64": {kindInt64, 8, 8}, "uuid": {kindUUID, 16, 16},
	"string": {kindString, 0, 16}, "bytes": {kindBytes, 0, 24}, "records": {kindBytes, 0, 24}, "struct": {kindStruct, 0, 0},
}

// versions is an inclusive range.
type versions struct{ min, max int16 }

var noVersions = versions{1, 0}

func (r versions) has(v int16) bool { return v >= r.min && v <= r.max }

// field is one field of a body; a struct's own fields are in fields.
type field struct {
	name      string
	kind      kind
	fixed     int // wire size of one value, 0 when it varies
	heapBytes int // bound on one value's place in a Go struct
	array     bool
	in        versions
	nullable  versions
	tagged    versions
	tag       uint32
	fields    []*field
}

// body is the schema of one request.
type body struct {
	key      int16
	name     string
	flexible versions
	fields   []*field
}

// structSlackBytes covers what a kmsg struct has beside the fields of Kafka
// 4.3: the tags, the version, and fields of versions that Kafka removed.
const structSlackBytes = 48

// bodies returns the parsed schemas by key.
var bodies = sync.OnceValue(func() map[int16]*body {
	m, err := parseSchemas(requestSchemas)
	if err != nil {
		panic(err) // embedded text; a test parses it
	}
	return m
})

func parseSchemas(text string) (map[int16]*body, error) {
	out := map[int16]*body{}
	var cur *body
	var stack []*field // the open struct at each depth
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimLeft(line, " ")
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		words := strings.Fields(trimmed)
		if words[0] == "api" {
			b, err := parseAPI(words)
			if err != nil {
				return nil, fmt.Errorf("schema line %d: %w", i+1, err)
			}
			cur, stack = b, stack[:0]
			out[b.key] = b
			continue
		}
		f, err := parseField(words)
		depth := (len(line)-len(trimmed))/2 - 1
		if err != nil || cur == nil || depth < 0 || depth > len(stack) {
			return nil, fmt.Errorf("schema line %d: bad field %q: %v", i+1, trimmed, err)
		}
		stack = append(stack[:depth], f)
		if depth == 0 {
			cur.fields = append(cur.fields, f)
		} else {
			stack[depth-1].fields = append(stack[depth-1].fields, f)
		}
	}
	for _, b := range out {
		sumHeap(b.fields)
	}
	return out, nil
}

func parseAPI(words []string) (*body, error) {
	if len(words) != 5 {
		return nil, fmt.Errorf("want: api KEY NAME VERSIONS FLEXIBLE")
	}
	key, err := strconv.ParseInt(words[1], 10, 16)
	if err != nil {
		return nil, err
	}
	flexible, err := parseVersions(words[4])
	return &body{key: int16(key), name: words[2], flexible: flexible}, err
}

func parseField(words []string) (*field, error) {
	if len(words) < 3 {
		return nil, fmt.Errorf("want: NAME TYPE VERSIONS")
	}
	typ, array := strings.CutPrefix(words[1], "[]")
	k, ok := kinds[typ]
	if !ok {
		return nil, fmt.Errorf("unknown type %q", words[1])
	}
	f := &field{name: words[0], kind: k.kind, fixed: k.fixed, heapBytes: k.heap, array: array, nullable: noVersions, tagged: noVersions}
	var err error
	if f.in, err = parseVersions(words[2]); err != nil {
		return nil, err
	}
	for _, w := range words[3:] {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "null":
			f.nullable, err = parseVersions(value)
		case "tag":
			n, in, _ := strings.Cut(value, "@")
			var tag uint64
			if tag, err = strconv.ParseUint(n, 10, 32); err == nil {
				f.tag = uint32(tag)
				f.tagged, err = parseVersions(in)
			}
		default:
			err = fmt.Errorf("unknown word %q", w)
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// parseVersions reads "3", "3-7", "3+" or "none".
func parseVersions(s string) (versions, error) {
	if s == "none" {
		return noVersions, nil
	}
	lo, hi, ranged := strings.Cut(strings.TrimSuffix(s, "+"), "-")
	v := versions{}
	n, err := strconv.ParseInt(lo, 10, 16)
	if err != nil {
		return v, err
	}
	v = versions{int16(n), int16(n)}
	if strings.HasSuffix(s, "+") {
		v.max = math.MaxInt16
	} else if ranged {
		n, err = strconv.ParseInt(hi, 10, 16)
		v.max = int16(n)
	}
	return v, err
}

// sumHeap fills in heapBytes of structs and returns the sum over fields.
func sumHeap(fields []*field) int {
	sum := structSlackBytes
	for _, f := range fields {
		if f.kind == kindStruct {
			f.heapBytes = sumHeap(f.fields)
		}
		if f.array {
			sum += 24
		} else {
			sum += f.heapBytes
		}
	}
	return sum
}
