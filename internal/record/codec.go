package record

import "strconv"

// Codec is a compression type, numbered as in the batch attributes.
type Codec int8

// The codecs of Kafka, and the config value that keeps the producer's choice.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	LZ4    Codec = 3
	Zstd   Codec = 4
	// CodecProducer is compression.type=producer; it is never in a batch.
	CodecProducer Codec = -1
)

var codecNames = map[Codec]string{None: "none", Gzip: "gzip", Snappy: "snappy", LZ4: "lz4", Zstd: "zstd", CodecProducer: "producer"}

// String returns the codec's name in Kafka's configuration.
func (c Codec) String() string {
	if n, ok := codecNames[c]; ok {
		return n
	}
	return "codec(" + strconv.Itoa(int(c)) + ")"
}

// Valid reports whether c can be in a batch.
func (c Codec) Valid() bool { return c >= None && c <= Zstd }

// ParseCodec reads a value of compression.type; "uncompressed" is Kafka's
// broker-side word for none.
func ParseCodec(name string) (Codec, bool) {
	if name == "uncompressed" {
		return None, true
	}
	for c, n := range codecNames {
		if n == name {
			return c, true
		}
	}
	return None, false
}
