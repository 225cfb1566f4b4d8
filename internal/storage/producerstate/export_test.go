package producerstate

import (
	"encoding/binary"
	"hash/crc32"
)

// Reseal puts the right CRC on a snapshot that a test damaged.
func Reseal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[snapshotCRCPos:], crc32.Checksum(b[snapshotBodyPos:], castagnoli))
	return b
}
