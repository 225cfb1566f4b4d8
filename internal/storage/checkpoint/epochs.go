package checkpoint

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/internal/vfs"
)

// LeaderEpochFile is the name of the epoch file in a partition's folder.
const LeaderEpochFile = "leader-epoch-checkpoint"

// EpochEntry says at which offset a leader epoch began (EpochEntry.java).
type EpochEntry struct {
	Epoch       int32
	StartOffset int64
}

// ReadLeaderEpochs reads a leader-epoch-checkpoint in file order. A missing or
// empty file has no entries. A file that does not parse is ErrCorrupt.
func ReadLeaderEpochs(fs vfs.FS, path string) ([]EpochEntry, error) {
	var out []EpochEntry
	err := read(fs, path, func(data []byte) (err error) {
		out, err = DecodeLeaderEpochs(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// WriteLeaderEpochs replaces a leader-epoch-checkpoint atomically.
func WriteLeaderEpochs(fs vfs.FS, path string, entries []EpochEntry) error {
	return WriteFile(fs, path, EncodeLeaderEpochs(entries))
}

// EncodeLeaderEpochs returns the file content in the order given.
func EncodeLeaderEpochs(entries []EpochEntry) []byte {
	lines := make([]string, len(entries))
	for i, e := range entries {
		lines[i] = strconv.Itoa(int(e.Epoch)) + " " + strconv.FormatInt(e.StartOffset, 10)
	}
	return encode(lines)
}

// DecodeLeaderEpochs parses the content of a leader-epoch-checkpoint. Order is
// not checked here: the cache drops what contradicts a later line, as Kafka does.
func DecodeLeaderEpochs(data []byte) ([]EpochEntry, error) {
	var out []EpochEntry
	err := decode(data, func(line string) error {
		f := strings.Fields(line)
		if len(f) != 2 {
			return fmt.Errorf("%q is not \"epoch offset\"", line)
		}
		epoch, err := strconv.ParseInt(f[0], 10, 32)
		if err != nil || epoch < 0 {
			return fmt.Errorf("%q is not a leader epoch", f[0])
		}
		off, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil || off < 0 {
			return fmt.Errorf("%q is not an offset", f[1])
		}
		out = append(out, EpochEntry{Epoch: int32(epoch), StartOffset: off})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
