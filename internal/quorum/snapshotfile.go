package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// File names (Snapshots.java, BootstrapDirectory.java in Apache Kafka 4.3).
const (
	logDirName     = "__cluster_metadata-0"
	bootstrapFile  = "bootstrap.checkpoint"
	snapshotSuffix = ".checkpoint"
	partSuffix     = ".checkpoint.part"
	deletedSuffix  = ".checkpoint.deleted"
	corruptSuffix  = ".checkpoint.corrupt" // ours: set aside after a failed check
	// raftIndexFile maps snapshots to raft indexes: lines "offset epoch index"
	// in the format of Kafka's other text checkpoints. Ours.
	raftIndexFile = "raft-index-checkpoint"
)

// name is the file name without its suffix: 20 and 10 digits.
func (id SnapshotID) name() string { return fmt.Sprintf("%020d-%010d", id.Offset, id.Epoch) }

func (id SnapshotID) compare(o SnapshotID) int {
	if id.Epoch != o.Epoch {
		return int(id.Epoch) - int(o.Epoch)
	}
	switch {
	case id.Offset < o.Offset:
		return -1
	case id.Offset > o.Offset:
		return 1
	}
	return 0
}

// isBootstrap reports whether id is that of the snapshot that Format writes.
func (id SnapshotID) isBootstrap() bool { return id == SnapshotID{} }

func parseSnapshotName(name string) (SnapshotID, bool) {
	base, ok := strings.CutSuffix(name, snapshotSuffix)
	if !ok || len(base) != 31 || base[20] != '-' {
		return SnapshotID{}, false
	}
	offset, err := strconv.ParseInt(base[:20], 10, 64)
	epoch, err2 := strconv.ParseInt(base[21:], 10, 32)
	if err != nil || err2 != nil || offset < 0 || epoch < 0 {
		return SnapshotID{}, false
	}
	return SnapshotID{offset, int32(epoch)}, true
}

func appendSnapshotID(dst []byte, id SnapshotID) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(dst, uint64(id.Offset)), uint32(id.Epoch))
}

func parseSnapshotID(b []byte) (SnapshotID, error) {
	if len(b) != 12 || binary.BigEndian.Uint64(b) > math.MaxInt64 || binary.BigEndian.Uint32(b[8:]) > math.MaxInt32 {
		return SnapshotID{}, fmt.Errorf("quorum: %d bytes are not a snapshot id", len(b))
	}
	return SnapshotID{int64(binary.BigEndian.Uint64(b)), int32(binary.BigEndian.Uint32(b[8:]))}, nil
}

// listSnapshots returns the snapshots of a folder in order, and removes what
// an interrupted write or deletion left behind.
func listSnapshots(fsys vfs.FS, dir string) ([]SnapshotID, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, fmt.Errorf("quorum: list %s: %w", dir, err)
	}
	var out []SnapshotID
	for _, n := range names {
		if strings.HasSuffix(n, partSuffix) || strings.HasSuffix(n, deletedSuffix) || strings.HasSuffix(n, checkpoint.TempSuffix) {
			if err := fsys.Remove(filepath.Join(dir, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("quorum: remove leftover: %w", err)
			}
			continue
		}
		if id, ok := parseSnapshotName(n); ok {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, SnapshotID.compare)
	return out, nil
}

// readRaftIndexes reads raft-index-checkpoint; a missing file is empty.
func readRaftIndexes(fsys vfs.FS, dir string) (map[SnapshotID]uint64, error) {
	out := map[SnapshotID]uint64{}
	data, err := checkpoint.ReadFile(fsys, filepath.Join(dir, raftIndexFile), maxSmallFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	bad := fmt.Errorf("quorum: %s: %w", raftIndexFile, checkpoint.ErrCorrupt)
	if len(lines) < 2 || lines[0] != "0" || lines[1] != strconv.Itoa(len(lines)-2) {
		return out, bad
	}
	for _, line := range lines[2:] {
		var id SnapshotID
		var index uint64
		if n, err := fmt.Sscanf(line, "%d %d %d", &id.Offset, &id.Epoch, &index); err != nil || n != 3 || id.Offset < 0 || id.Epoch < 0 {
			return map[SnapshotID]uint64{}, bad
		}
		out[id] = index
	}
	return out, nil
}

func writeRaftIndexes(fsys vfs.FS, dir string, indexes map[SnapshotID]uint64) error {
	ids := make([]SnapshotID, 0, len(indexes))
	for id := range indexes {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, SnapshotID.compare)
	var b strings.Builder
	fmt.Fprintf(&b, "0\n%d\n", len(ids))
	for _, id := range ids {
		fmt.Fprintf(&b, "%d %d %d\n", id.Offset, id.Epoch, indexes[id])
	}
	return checkpoint.WriteFile(fsys, filepath.Join(dir, raftIndexFile), []byte(b.String()))
}
