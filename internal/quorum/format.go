package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// FormatOptions says what a new metadata log folder holds.
type FormatOptions struct {
	Voters []Voter
	// Bootstrap are the records of bootstrap.checkpoint, metadata.version
	// first; the first controller writes them to the log.
	Bootstrap []recordschema.MetadataRecord
	NowMs     int64
}

// Format makes the metadata log folder under dir with its bootstrap snapshot
// (KRaftVersion 1 and Voters) and dir/bootstrap.checkpoint, as
// kafka-storage format --initial-controllers does. What is there already is
// left alone, so an interrupted Format can be repeated.
func Format(fsys vfs.FS, dir string, o FormatOptions) error {
	if len(o.Voters) == 0 {
		return errors.New("quorum: format needs at least one voter")
	}
	logDir := filepath.Join(dir, logDirName)
	if err := fsys.MkdirAll(logDir); err != nil {
		return fmt.Errorf("quorum: format: %w", err)
	}
	set := &voterSet{voters: o.Voters, version: kraftVersion}
	first := filepath.Join(logDir, SnapshotID{}.name()+snapshotSuffix)
	err := writeOnce(fsys, first, o.NowMs, snapshotContent{lastTimestampMs: o.NowMs, voters: set})
	if err != nil {
		return err
	}
	boot := snapshotContent{records: func(yield func(recordschema.MetadataRecord) bool) {
		for _, r := range o.Bootstrap {
			if !yield(r) {
				return
			}
		}
	}}
	if err := writeOnce(fsys, filepath.Join(dir, bootstrapFile), o.NowMs, boot); err != nil {
		return err
	}
	// The names of both folders; also when an earlier Format died before it
	// could sync them.
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := fsys.SyncDir(d); err != nil {
			return errorf("format: %w", err)
		}
	}
	return nil
}

func writeOnce(fsys vfs.FS, path string, nowMs int64, c snapshotContent) error {
	_, err := fsys.Stat(path)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("quorum: format: %w", err)
	}
	part := path + ".part"
	if err := writeSnapshotFile(fsys, part, 0, nowMs, c); err != nil {
		return err
	}
	return installSnapshot(fsys, part, path)
}

// ReadBootstrap returns the records of dir/bootstrap.checkpoint; none when the
// file is missing.
func ReadBootstrap(fsys vfs.FS, dir string) (_ []recordschema.MetadataRecord, err error) {
	r, err := openSnapshot(fsys, filepath.Join(dir, bootstrapFile), SnapshotID{})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	var out []recordschema.MetadataRecord
	for rec, err := range r.Records() {
		if err != nil {
			return nil, fmt.Errorf("quorum: %s: %w", bootstrapFile, err)
		}
		out = append(out, rec)
	}
	return out, nil
}
