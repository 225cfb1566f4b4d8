package recordschema

import "reflect"

// Field is one field of a record as it lies on the wire.
type Field struct {
	Name     string // Go name; Kafka's is the same up to the case of ID and ISR
	Type     string // int8, string, []int32, []NodeEndpoint, ...
	Nullable bool
	Tag      int     // -1: in the body; else the tag of a tagged field (KIP-482)
	Fields   []Field // of the elements, when Type is an array of structs
}

// Describe returns the fields of a metadata record at a version, in wire order;
// nil when there is no such record or version. Documentation is made from it,
// by the very walk that reads and writes.
func Describe(key, version int16) []Field {
	if version < 0 || version > NewestVersion(key) {
		return nil
	}
	r := newRecord(uint32(key))
	return describe(r, func(c *codec) { r.walk(c, version) })
}

// DescribeControl is Describe for control records; the Version field that
// starts each of them comes first.
func DescribeControl(t ControlType, version int16) []Field {
	r := newControl(t)
	if r == nil || version < 0 || version > r.newestControl() {
		return nil
	}
	fields := describe(r, func(c *codec) { r.walkControl(c, version) })
	return append([]Field{{Name: "Version", Type: "int16", Tag: -1}}, fields...)
}

func describe(record any, walk func(*codec)) []Field {
	tr := &tracer{names: map[any]string{}}
	tr.learn(reflect.ValueOf(record).Elem(), "")
	walk(&codec{trace: tr})
	return tr.fields
}

// tracer turns the pointers that a walk passes back into field names.
type tracer struct {
	names  map[any]string // pointer to field -> name
	fields []Field
	tag    int // 1 + the tag being walked; 0 in the body
}

// learn notes where each field of a struct lives. Structs within the struct are
// flattened with a dot.
func (tr *tracer) learn(v reflect.Value, prefix string) {
	for i := range v.NumField() {
		f := v.Field(i)
		name := prefix + v.Type().Field(i).Name
		tr.names[f.Addr().Interface()] = name
		if f.Kind() == reflect.Struct {
			tr.learn(f, name+".")
		}
	}
}

func (tr *tracer) field(p any, kind string, nullable bool) {
	tr.fields = append(tr.fields, Field{Name: tr.names[p], Type: kind, Nullable: nullable, Tag: tr.tag - 1})
}

func (tr *tracer) tags(known []tag) {
	for _, t := range known {
		tr.tag = int(t.id) + 1
		t.walk()
	}
	tr.tag = 0
}

// traceArray describes one element and names the array after its type.
func traceArray[T any](c *codec, p *[]T, nullable bool, elem func(*codec, *T)) {
	var v T
	rv := reflect.ValueOf(&v).Elem()
	inner := &tracer{names: map[any]string{}}
	if rv.Kind() == reflect.Struct {
		inner.learn(rv, "")
	}
	elem(&codec{trace: inner}, &v)
	f := Field{Name: c.trace.names[p], Nullable: nullable, Tag: c.trace.tag - 1}
	if rv.Kind() == reflect.Struct {
		f.Type, f.Fields = "[]"+rv.Type().Name(), inner.fields
	} else {
		f.Type = "[]" + inner.fields[0].Type
	}
	c.trace.fields = append(c.trace.fields, f)
}
