package dispatch

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestKeysAndNoKey(t *testing.T) {
	q := New[string](ByKey)
	q.Push([]byte("a"), "a1")
	q.Push([]byte("a"), "a2")
	q.Push(nil, "n1")
	q.Push([]byte{}, "e1") // an empty key is a key
	q.Push(nil, "n2")
	var got []string
	var out []*Task[string]
	for tk := q.Next(); tk != nil; tk = q.Next() {
		got, out = append(got, tk.Value), append(out, tk)
	}
	if fmt.Sprint(got) != "[a1 n1 e1]" {
		t.Fatalf("runnable: %v", got)
	}
	q.Done(out[1]) // n1
	if tk := q.Next(); tk == nil || tk.Value != "n2" {
		t.Fatalf("after n1: %v", tk)
	}
	q.Again(out[0]) // a1 waited and comes back; a2 must not overtake it
	if tk := q.Next(); tk.Value != "a1" {
		t.Fatalf("after the wait: %v", tk.Value)
	}
	if q.Next() != nil {
		t.Fatal("a2 overtook a1")
	}
	q.Done(out[0])
	if tk := q.Next(); tk == nil || tk.Value != "a2" {
		t.Fatalf("after a1: %v", tk)
	}
}

type rec struct {
	key string
	n   int
}

// TestOrderProperty: whatever finishes when, records of one lane start in
// delivery order and never two at a time, and none is forgotten.
func TestOrderProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.SampledFrom([]Order{ByKey, ByPartition, None}).Draw(t, "order")
		q := New[rec](order)
		lane := func(r rec) string {
			switch order {
			case ByPartition:
				return "all"
			case None:
				return fmt.Sprint(r.n)
			}
			return r.key
		}
		var out, waiting []*Task[rec]
		busy, last := map[string]bool{}, map[string]int{}
		pushed, done := 0, 0
		for step := 0; step < 300 || done < pushed; step++ {
			op := rapid.IntRange(0, 4).Draw(t, "op")
			switch {
			case op == 0 && step < 300:
				pushed++
				k := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "key")
				var key []byte
				if k != "" {
					key = []byte(k)
				}
				q.Push(key, rec{k, pushed})
			case op == 1 && len(out) > 0:
				i := rapid.IntRange(0, len(out)-1).Draw(t, "wait")
				waiting = append(waiting, out[i])
				out = append(out[:i], out[i+1:]...)
			case op == 2 && len(waiting) > 0:
				q.Again(waiting[0])
				waiting = waiting[1:]
			case op == 3 && len(out) > 0:
				i := rapid.IntRange(0, len(out)-1).Draw(t, "done")
				busy[lane(out[i].Value)] = false
				q.Done(out[i])
				out = append(out[:i], out[i+1:]...)
				done++
			default:
				runnable := q.Runnable()
				tk := q.Next()
				if (tk != nil) != runnable {
					t.Fatalf("Runnable %v, Next %v", runnable, tk)
				}
				if tk == nil {
					continue
				}
				l := lane(tk.Value)
				if tk.Value.n < last[l] || busy[l] && tk.Value.n != last[l] {
					t.Fatalf("lane %q: %d after %d, busy %v", l, tk.Value.n, last[l], busy[l])
				}
				busy[l], last[l] = true, tk.Value.n
				out = append(out, tk)
			}
		}
		if q.Len() != 0 || len(q.lanes) != 0 {
			t.Fatalf("%d tasks, %d lanes left", q.Len(), len(q.lanes))
		}
	})
}
