package metahash

import (
	"encoding/binary"
	"slices"
	"unicode/utf16"

	"github.com/tidemark-io/tidemark/internal/types"
)

// magic is the version of the hash: it changes when what is hashed does.
const magic byte = 0

// Topic hashes what an assignment depends on of one topic; racks returns the
// racks of a partition's replicas, in any order.
func Topic(id types.UUID, name string, partitions int32, racks func(partition int32) []string) int64 {
	b := make([]byte, 0, 64+2*len(name)+8*int(partitions))
	b = append(b, magic)
	b = appendLong(b, binary.BigEndian.Uint64(id[:8]))
	b = appendLong(b, binary.BigEndian.Uint64(id[8:]))
	b = appendString(b, name)
	b = appendInt(b, partitions)
	for p := range partitions {
		b = appendInt(b, p)
		sorted := slices.Clone(racks(p))
		slices.Sort(sorted)
		for _, r := range sorted {
			b = appendInt(b, int32(len(utf16.Encode([]rune(r)))))
			b = appendString(b, r)
		}
	}
	return int64(xxh3(b))
}

// Group hashes the hashes of a group's topics, in the order of their names.
func Group(topics []int64) int64 {
	if len(topics) == 0 {
		return 0
	}
	b := make([]byte, 0, 8*len(topics))
	for _, h := range topics {
		b = appendLong(b, uint64(h))
	}
	return int64(xxh3(b))
}

func appendLong(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }
func appendInt(b []byte, v int32) []byte   { return binary.LittleEndian.AppendUint32(b, uint32(v)) }

func appendString(b []byte, s string) []byte {
	units := utf16.Encode([]rune(s))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return appendInt(b, int32(len(units)))
}
