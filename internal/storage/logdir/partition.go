package logdir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// PartitionMetadataFile is the name of the file in a partition's folder that
// holds its topic id.
const PartitionMetadataFile = "partition.metadata"

// EncodePartitionMetadata returns the file content; Kafka writes no line end
// after the id.
func EncodePartitionMetadata(topicID types.UUID) []byte {
	return fmt.Appendf(nil, "version: 0\ntopic_id: %s", topicID)
}

// DecodePartitionMetadata parses the file. Newer versions are accepted, as in
// Kafka, since they may only add lines.
func DecodePartitionMetadata(data []byte) (types.UUID, error) {
	lines := strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	if len(lines) < 2 {
		return types.UUID{}, corrupt("%d lines, expected version and topic_id", len(lines))
	}
	v, err := strconv.ParseInt(valueOf(lines[0], "version"), 10, 32)
	if err != nil || v < 0 {
		return types.UUID{}, corrupt("%q is not a version", lines[0])
	}
	id, err := types.ParseUUID(valueOf(lines[1], "topic_id"))
	if err != nil {
		return types.UUID{}, corrupt("topic_id: %v", err)
	}
	if id.IsZero() {
		return types.UUID{}, corrupt("topic_id is all zero")
	}
	return id, nil
}

func valueOf(line, key string) string {
	v, ok := strings.CutPrefix(line, key+":")
	if !ok {
		return ""
	}
	return strings.TrimLeft(v, " \t")
}

// ReadPartitionMetadata returns the topic id of a partition's folder; ok is
// false when there is no file yet. A file that does not parse is
// checkpoint.ErrCorrupt.
func ReadPartitionMetadata(fsys vfs.FS, partitionDir string) (id types.UUID, ok bool, err error) {
	path := filepath.Join(partitionDir, PartitionMetadataFile)
	data, err := checkpoint.ReadFile(fsys, path, maxSmallFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return id, false, nil
	}
	if err != nil {
		return id, false, fmt.Errorf("read %s: %w", path, err)
	}
	if id, err = DecodePartitionMetadata(data); err != nil {
		return id, false, fmt.Errorf("%s: %w", path, err)
	}
	return id, true, nil
}

// WritePartitionMetadata stores the topic id of a partition's folder that has
// none. It is durable after SyncPartitionMetadata and a sync of that folder; a
// power cut before leaves no file, the file, or one that is cut short, which is
// as good as none: the metadata log has the id too.
func WritePartitionMetadata(fsys vfs.FS, partitionDir string, topicID types.UUID) error {
	path := filepath.Join(partitionDir, PartitionMetadataFile)
	f, err := fsys.Create(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if _, err = f.WriteAt(EncodePartitionMetadata(topicID), 0); err == nil {
		f.WriteOut() // by the time of the sync, which the first record waits for, it is there
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = fsys.Remove(path) // what is left of it says nothing
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// SyncPartitionMetadata makes the content of the file durable, where there is one.
func SyncPartitionMetadata(fsys vfs.FS, partitionDir string) error {
	f, err := fsys.OpenReadWrite(filepath.Join(partitionDir, PartitionMetadataFile), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
