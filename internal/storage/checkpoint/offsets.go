package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// Names of the offset checkpoints in a data folder.
const (
	// RecoveryPointFile holds, per partition, the offset below which every
	// byte is known to be on disk: a start after a crash scans from there.
	RecoveryPointFile = "recovery-point-offset-checkpoint"
	// LogStartFile holds log start offsets that segments do not show.
	LogStartFile = "log-start-offset-checkpoint"
	// HighWatermarkFile holds high watermarks.
	HighWatermarkFile = "replication-offset-checkpoint"
	// CleanerFile holds the first offset that compaction has not cleaned.
	CleanerFile = "cleaner-offset-checkpoint"
)

// ReadOffsets reads an offset checkpoint. A missing or empty file is an empty
// map. A file that does not parse is ErrCorrupt with the path and the reason.
// As in Kafka, the last of two lines for one partition wins.
func ReadOffsets(fs vfs.FS, path string) (map[types.TopicPartition]int64, error) {
	out := map[types.TopicPartition]int64{}
	err := read(fs, path, func(data []byte) error {
		m, err := DecodeOffsets(data)
		if err == nil {
			out = m
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// WriteOffsets replaces an offset checkpoint atomically; see WriteFile.
func WriteOffsets(fs vfs.FS, path string, offsets map[types.TopicPartition]int64) error {
	return WriteFile(fs, path, EncodeOffsets(offsets))
}

// EncodeOffsets returns the file content, partitions sorted by topic and
// number so that equal maps give equal bytes (Kafka keeps hash order).
func EncodeOffsets(offsets map[types.TopicPartition]int64) []byte {
	tps := make([]types.TopicPartition, 0, len(offsets))
	for tp := range offsets {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, func(a, b types.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	lines := make([]string, len(tps))
	for i, tp := range tps {
		lines[i] = tp.Topic + " " + strconv.Itoa(int(tp.Partition)) + " " + strconv.FormatInt(offsets[tp], 10)
	}
	return encode(lines)
}

// DecodeOffsets parses the content of an offset checkpoint.
func DecodeOffsets(data []byte) (map[types.TopicPartition]int64, error) {
	out := map[types.TopicPartition]int64{}
	err := decode(data, func(line string) error {
		f := strings.Fields(line)
		if len(f) != 3 {
			return fmt.Errorf("%q is not \"topic partition offset\"", line)
		}
		p, err := strconv.ParseInt(f[1], 10, 32)
		if err != nil || p < 0 {
			return fmt.Errorf("%q is not a partition number", f[1])
		}
		off, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil || off < 0 {
			return fmt.Errorf("%q is not an offset", f[2])
		}
		out[types.TopicPartition{Topic: f[0], Partition: int32(p)}] = off
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
