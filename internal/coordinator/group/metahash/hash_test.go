package metahash

import (
	"testing"

	"github.com/tidemark-io/tidemark/internal/types"
)

// TestXXH3 holds the hash against hash4j 0.22, which Apache Kafka 4.3.1 uses:
// byte i of the input is 7*i+3.
func TestXXH3(t *testing.T) {
	for n, want := range map[int]uint64{
		0: 0x2d06800538d394c2, 1: 0x13e608bc156defed, 3: 0xa9088dda485b481c, 4: 0x6d9253b16c8b1ed3, 8: 0x60539db630471163,
		9: 0xfeff668361d723a8, 16: 0xb8c859b0f030b585, 17: 0x714a04408e79b80f, 64: 0x287eb1fa9e4be2c1, 128: 0x67425a03650261bf,
		129: 0xc664bf3311c6abc4, 200: 0x746cd0025327bf5b, 240: 0x64556dc6b462a6cf, 241: 0x8beadd3a8874fe17, 300: 0xfd9aa0f0d62e0227,
		1023: 0xd26986a0b85dcc44, 1024: 0x9b81661c641c72b1, 1025: 0x806c2072ed713576, 3000: 0xc89178bb873c6b3d,
	} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i*7 + 3)
		}
		if got := xxh3(b); got != want {
			t.Errorf("%d bytes: %x, want %x", n, got, want)
		}
	}
}

// TestTopicAndGroup holds the streams against hash4j too.
func TestTopicAndGroup(t *testing.T) {
	b := appendString(nil, "tópic")
	if got := xxh3(b); got != 0x6da5a6c6aadcba20 {
		t.Errorf("string: %x", got)
	}
	id := types.UUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	racks := func(p int32) []string {
		if p == 0 {
			return []string{"rackA"}
		}
		return nil
	}
	if got := uint64(Topic(id, "orders", 2, racks)); got != 0x331d3323b80cbae5 {
		t.Errorf("topic: %x", got)
	}
	if got := uint64(Group([]int64{5, -7})); got != 0xbf82bd687f7029b7 {
		t.Errorf("group: %x", got)
	}
	if Group(nil) != 0 {
		t.Error("a group without topics has hash 0")
	}
}
