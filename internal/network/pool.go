package network

import (
	"math/bits"
	"sync"
)

// Buffers come in powers of two from minClass to maxClass bits; bigger ones are
// made for the occasion and left to the collector.
const (
	minClass = 9  // 512 bytes
	maxClass = 22 // 4 MiB
)

// poisonByte fills freed buffers when poisoning is on.
const poisonByte = 0xdb

// buffer is a pooled byte slice; b's length is what is in use.
type buffer struct{ b []byte }

// pool hands out buffers by size class. Safe for concurrent use.
type pool struct {
	classes [maxClass - minClass + 1]sync.Pool
	poison  bool
}

// roundUp is the capacity get gives for n bytes: what a budget must be charged.
func roundUp(n int) int {
	if n > 1<<maxClass {
		return n
	}
	return 1 << max(minClass, bits.Len(uint(max(n, 1)-1)))
}

// get returns a buffer of length n and at least that capacity.
func (p *pool) get(n int) *buffer {
	if n > 1<<maxClass {
		return &buffer{b: make([]byte, n)}
	}
	size := roundUp(n)
	class := bits.Len(uint(size)) - 1 - minClass
	if v, ok := p.classes[class].Get().(*buffer); ok {
		v.b = v.b[:n]
		return v
	}
	return &buffer{b: make([]byte, n, size)}
}

// put takes a buffer back; the caller must not touch it again. A buffer that
// grew by append goes to the class it has grown into.
func (p *pool) put(v *buffer) {
	if v == nil {
		return
	}
	whole := v.b[:cap(v.b)]
	if p.poison {
		for i := range whole {
			whole[i] = poisonByte
		}
	}
	class := bits.Len(uint(len(whole))) - 1 - minClass
	if class < 0 || class > maxClass-minClass {
		return
	}
	v.b = whole[:0]
	p.classes[class].Put(v)
}
