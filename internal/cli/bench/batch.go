package bench

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// batch is one record batch (message format v2), ready to send.
type batch struct {
	wire    []byte
	records int64
}

// Positions in the batch header (DefaultRecordBatch of Apache Kafka).
const (
	headerSize     = 61
	lengthPos      = 8
	magicPos       = 16
	crcPos         = 17
	attributesPos  = 21
	lastDeltaPos   = 23
	firstTimePos   = 27
	maxTimePos     = 35
	producerIDPos  = 43
	producerEpPos  = 51
	baseSeqPos     = 53
	recordCountPos = 57
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var codecs = map[string]kgo.CompressionCodec{
	"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// buildBatch makes a batch of records of valueBytes each, about batchBytes in
// all before compression. Values are text that compresses as logs do.
func buildBatch(rng *rand.Rand, valueBytes, batchBytes int, codec string) (batch, error) {
	var body []byte
	count := int32(0)
	for count == 0 || len(body)+valueBytes+16 <= batchBytes {
		r := kmsg.Record{OffsetDelta: count, Value: value(rng, valueBytes)}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // Length itself takes one byte while it is 0
		body = r.AppendTo(body)
		count++
	}
	attributes := uint16(0)
	if c, ok := codecs[codec]; ok {
		compressor, err := kgo.DefaultCompressor(c)
		if err != nil {
			return batch{}, app.Failed("compress: %w", err)
		}
		var kind kgo.CompressionCodecType
		body, kind = compressor.Compress(new(bytes.Buffer), body)
		attributes = uint16(kind)
	}
	now := uint64(time.Now().UnixMilli())
	b := make([]byte, headerSize, headerSize+len(body))
	b = append(b, body...)
	binary.BigEndian.PutUint32(b[lengthPos:], uint32(len(b)-lengthPos-4))
	binary.BigEndian.PutUint32(b[12:], ^uint32(0)) // the leader stamps its epoch
	b[magicPos] = 2
	binary.BigEndian.PutUint16(b[attributesPos:], attributes)
	binary.BigEndian.PutUint32(b[lastDeltaPos:], uint32(count-1))
	binary.BigEndian.PutUint64(b[firstTimePos:], now)
	binary.BigEndian.PutUint64(b[maxTimePos:], now)
	binary.BigEndian.PutUint64(b[producerIDPos:], ^uint64(0))
	binary.BigEndian.PutUint16(b[producerEpPos:], ^uint16(0))
	binary.BigEndian.PutUint32(b[baseSeqPos:], ^uint32(0))
	binary.BigEndian.PutUint32(b[recordCountPos:], uint32(count))
	binary.BigEndian.PutUint32(b[crcPos:], crc32.Checksum(b[attributesPos:], castagnoli))
	return batch{wire: b, records: int64(count)}, nil
}

const words = "the quick brown fox jumps over a lazy dog while 0123456789 sensors report degrees and watts "

func value(rng *rand.Rand, n int) []byte {
	v := make([]byte, n)
	for i := range v {
		v[i] = words[rng.IntN(len(words))]
	}
	return v
}

// scan counts the whole batches in fetched bytes: records, bytes, and the offset after the last.
func scan(b []byte, next int64) (records, size, after int64) {
	for len(b) >= headerSize {
		length := int64(int32(binary.BigEndian.Uint32(b[lengthPos:]))) + lengthPos + 4
		if length < headerSize || length > int64(len(b)) {
			break
		}
		base := int64(binary.BigEndian.Uint64(b))
		last := base + int64(int32(binary.BigEndian.Uint32(b[lastDeltaPos:])))
		if last >= next { // a batch may start before the offset that was asked for
			records += int64(int32(binary.BigEndian.Uint32(b[recordCountPos:])))
			next = last + 1
		}
		size += length
		b = b[length:]
	}
	return records, size, next
}
