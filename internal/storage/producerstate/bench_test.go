package producerstate_test

import (
	"testing"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/producerstate"
)

// An append of an idempotent producer, checked and committed; it must not
// allocate.
func BenchmarkAppend(b *testing.B) {
	s := producerstate.NewState()
	const producers = 1000
	var seq [producers]int32
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		p := i % producers
		i++
		batch := producerstate.Batch{ProducerID: int64(p), BaseSequence: seq[p], LastSequence: seq[p], BaseOffset: int64(i), LastOffset: int64(i)}
		u := s.Prepare(record.OriginClient)
		if _, err := u.Add(batch); err != nil {
			b.Fatal(err)
		}
		s.Commit(u)
		seq[p]++
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	s := producerstate.NewState()
	seq := int32(0)
	allocs := testing.AllocsPerRun(100, func() {
		u := s.Prepare(record.OriginClient)
		if _, err := u.Add(producerstate.Batch{ProducerID: 1, BaseSequence: seq, LastSequence: seq, BaseOffset: int64(seq), LastOffset: int64(seq)}); err != nil {
			t.Fatal(err)
		}
		s.Commit(u)
		seq++
	})
	if allocs > 0 {
		t.Errorf("%v allocations an append", allocs)
	}
}
