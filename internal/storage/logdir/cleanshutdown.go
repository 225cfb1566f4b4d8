package logdir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// CleanShutdownFile is the name of the marker that a clean close leaves.
const CleanShutdownFile = ".kafka_cleanshutdown"

// NoBrokerEpoch means that a marker names no broker epoch.
const NoBrokerEpoch int64 = -1

const cleanShutdownVersion = 0

// EncodeCleanShutdown returns the content of the marker.
func EncodeCleanShutdown(brokerEpoch int64) []byte {
	return fmt.Appendf(nil, `{"version":%d,"brokerEpoch":%d}`, cleanShutdownVersion, brokerEpoch)
}

// DecodeCleanShutdown reads the broker epoch from the marker. Unknown fields
// and versions are accepted, as in Kafka.
func DecodeCleanShutdown(data []byte) (brokerEpoch int64, err error) {
	var c struct {
		BrokerEpoch *int64 `json:"brokerEpoch"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return NoBrokerEpoch, corrupt("%v", err)
	}
	if c.BrokerEpoch == nil || *c.BrokerEpoch < NoBrokerEpoch {
		return NoBrokerEpoch, corrupt("no usable brokerEpoch")
	}
	return *c.BrokerEpoch, nil
}

// takeCleanShutdown reads the marker and removes it durably. The mere presence
// of the file means a clean close (before KIP-966 it was empty); one whose
// content does not parse gives no broker epoch, and the reason as report.
func takeCleanShutdown(fsys vfs.FS, dir string) (clean bool, brokerEpoch int64, report, err error) {
	path := filepath.Join(dir, CleanShutdownFile)
	data, err := checkpoint.ReadFile(fsys, path, maxSmallFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return false, NoBrokerEpoch, nil, nil
	}
	if err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
		return false, NoBrokerEpoch, nil, fmt.Errorf("read %s: %w", path, err)
	}
	brokerEpoch, report = DecodeCleanShutdown(data)
	if report != nil {
		report = fmt.Errorf("%s: %w", path, report)
	}
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, NoBrokerEpoch, report, fmt.Errorf("remove %s: %w", path, err)
	}
	if err := fsys.SyncDir(dir); err != nil {
		return false, NoBrokerEpoch, report, fmt.Errorf("remove %s: %w", path, err)
	}
	return true, brokerEpoch, report, nil
}
