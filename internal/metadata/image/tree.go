package image

import (
	"cmp"
	"iter"

	"github.com/tidwall/btree"

	"github.com/tidemark-io/tidemark/internal/types"
)

// ordered are the key types in use; btree.Map wants this constraint.
type ordered interface{ ~int32 | ~string }

// tree is a copy-on-write ordered map.
type tree[K ordered, V any] struct{ m *btree.Map[K, V] }

func newTree[K ordered, V any]() tree[K, V] { return tree[K, V]{m: new(btree.Map[K, V])} }

// fork returns a tree that may be written without changing t. It copies the
// header by value first: btree's own Copy would write to t's header, which other
// goroutines may be forking at the same time.
func (t tree[K, V]) fork() tree[K, V] {
	header := *t.m
	return tree[K, V]{m: header.Copy()}
}

func (t tree[K, V]) get(k K) (V, bool) { return t.m.Get(k) }
func (t tree[K, V]) set(k K, v V)      { t.m.Set(k, v) }
func (t tree[K, V]) del(k K) bool      { _, ok := t.m.Delete(k); return ok }
func (t tree[K, V]) len() int          { return t.m.Len() }

// values yields the values in key order.
func (t tree[K, V]) values() iter.Seq[V] {
	return func(yield func(V) bool) {
		t.m.Scan(func(_ K, v V) bool { return yield(v) })
	}
}

// from yields the values whose key is k or greater, in key order.
func (t tree[K, V]) from(k K) iter.Seq[V] {
	return func(yield func(V) bool) {
		t.m.Ascend(k, func(_ K, v V) bool { return yield(v) })
	}
}

func uuidKey(id types.UUID) string { return string(id[:]) }

// CompareUUID orders ids as Kafka's Uuid.compareTo does: by the two halves as
// signed 64-bit numbers.
func CompareUUID(a, b types.UUID) int {
	for half := 0; half < 16; half += 8 {
		if c := cmp.Compare(int8(a[half]), int8(b[half])); c != 0 {
			return c
		}
		for i := half + 1; i < half+8; i++ {
			if c := cmp.Compare(a[i], b[i]); c != 0 {
				return c
			}
		}
	}
	return 0
}
