package producerstate

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// maxSnapshotBytes bounds what a snapshot may take into memory: about 4.6
// million producers with full windows.
const maxSnapshotBytes = 1 << 30

// Options say where the snapshots of a partition live.
type Options struct {
	FS  vfs.FS
	Dir string // the partition's folder
	// ExpirationMs is producer.id.expiration.ms; 0 means DefaultExpirationMs.
	ExpirationMs int64
	// OnCorrupt hears of each snapshot that does not verify; it has been
	// removed, and what it held is rebuilt from the log. May be nil.
	OnCorrupt func(path string, reason error)
}

// Manager is a State with its snapshots in the partition's folder. The methods
// of State decide; those of Manager read and write files.
type Manager struct {
	*State
	o              Options
	snapshots      []int64 // offsets that have a file, ascending
	lastSnapOffset int64
}

// Open lists the snapshots of a folder (a missing folder has none) and removes
// what an interrupted write left. The state is empty until TruncateAndReload.
func Open(o Options) (*Manager, error) {
	if o.ExpirationMs <= 0 {
		o.ExpirationMs = DefaultExpirationMs
	}
	if o.OnCorrupt == nil {
		o.OnCorrupt = func(string, error) {}
	}
	m := &Manager{State: NewState(), o: o}
	return m, m.list()
}

func (m *Manager) list() error {
	m.snapshots = m.snapshots[:0]
	names, err := m.o.FS.List(m.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list producer snapshots: %w", err)
	}
	for _, name := range names {
		if offset, ok := ParseSnapshotName(name); ok {
			m.snapshots = append(m.snapshots, offset)
		} else if strings.HasSuffix(name, SnapshotSuffix+checkpoint.TempSuffix) {
			if err := m.remove(filepath.Join(m.o.Dir, name)); err != nil {
				return err
			}
		}
	}
	slices.Sort(m.snapshots)
	return nil
}

func (m *Manager) path(offset int64) string { return filepath.Join(m.o.Dir, SnapshotName(offset)) }

func (m *Manager) remove(path string) error {
	if err := m.o.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove producer snapshot: %w", err)
	}
	return nil
}

// SetDir tells the manager that the partition's folder was renamed.
func (m *Manager) SetDir(dir string) { m.o.Dir = dir }

// SetExpirationMs changes producer.id.expiration.ms.
func (m *Manager) SetExpirationMs(ms int64) { m.o.ExpirationMs = ms }

// RemoveExpired forgets idle producers; see State.RemoveExpired.
func (m *Manager) RemoveExpired(nowMs int64) int {
	return m.State.RemoveExpired(nowMs, m.o.ExpirationMs)
}

// Snapshots returns the offsets that have a snapshot, ascending.
func (m *Manager) Snapshots() []int64 { return slices.Clone(m.snapshots) }

// LatestSnapshot returns the offset of the newest snapshot.
func (m *Manager) LatestSnapshot() (offset int64, ok bool) {
	if len(m.snapshots) == 0 {
		return 0, false
	}
	return m.snapshots[len(m.snapshots)-1], true
}

// SnapshotPath returns the file of the snapshot at exactly offset.
func (m *Manager) SnapshotPath(offset int64) (path string, ok bool) {
	if !slices.Contains(m.snapshots, offset) {
		return "", false
	}
	return m.path(offset), true
}

// TruncateAndReload makes the state fit a log of [logStart, logEnd):
// snapshots outside go, and unless the state already ends at logEnd it is
// loaded again from the newest snapshot that verifies. Afterwards EndOffset
// says from where the caller must replay the log (logStart when no snapshot
// was usable).
func (m *Manager) TruncateAndReload(logStart, logEnd, nowMs int64) error {
	for _, offset := range slices.Clone(m.snapshots) {
		if offset > logEnd || offset <= logStart {
			if err := m.removeSnapshot(offset); err != nil {
				return err
			}
		}
	}
	if logEnd == m.EndOffset() {
		m.OnLogStartOffset(logStart)
		return nil
	}
	m.clear()
	return m.loadLatest(logStart, nowMs)
}

// loadLatest loads the newest snapshot that verifies. Producers that expired
// meanwhile are left out.
func (m *Manager) loadLatest(logStart, nowMs int64) error {
	for {
		offset, ok := m.LatestSnapshot()
		if !ok {
			m.lastSnapOffset = logStart
			m.SetEndOffset(logStart)
			return nil
		}
		entries, err := readSnapshot(m.o.FS, m.path(offset))
		switch {
		case err == nil:
			for i := range entries {
				if !expired(&entries[i], nowMs, m.o.ExpirationMs) {
					m.load(entries[i])
				}
			}
			m.lastSnapOffset = offset
			m.SetEndOffset(offset)
			return nil
		case errors.Is(err, checkpoint.ErrCorrupt), errors.Is(err, fs.ErrNotExist):
			m.o.OnCorrupt(m.path(offset), err)
			if err := m.removeSnapshot(offset); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func readSnapshot(fs vfs.FS, path string) ([]Entry, error) {
	b, err := checkpoint.ReadFile(fs, path, maxSnapshotBytes)
	if err != nil {
		return nil, err
	}
	return DecodeSnapshot(b)
}

// TruncateFullyAndStartAt forgets everything, files included.
func (m *Manager) TruncateFullyAndStartAt(offset int64) error {
	m.clear()
	m.lastSnapOffset = 0
	m.SetEndOffset(offset)
	for _, s := range slices.Clone(m.snapshots) {
		if err := m.removeSnapshot(s); err != nil {
			return err
		}
	}
	return nil
}

// OnLogStartOffset says that the log start moved up. Producers stay: their
// batches may be gone, but what they wrote last is still the truth.
func (m *Manager) OnLogStartOffset(logStart int64) {
	m.OnHighWatermark(logStart)
	if m.EndOffset() < logStart {
		m.SetEndOffset(logStart)
	}
	m.lastSnapOffset = logStart
	if offset, ok := m.LatestSnapshot(); ok {
		m.lastSnapOffset = offset
	}
}

// TakeSnapshot writes the state at EndOffset, unless nothing was appended
// since the last snapshot. With sync it is on disk when TakeSnapshot returns
// (clean shutdown); without, a power cut may lose or tear it, and the next
// start falls back to an older one (roll; see SyncSnapshot).
func (m *Manager) TakeSnapshot(sync bool) (offset int64, taken bool, err error) {
	offset = m.EndOffset()
	if offset <= m.lastSnapOffset {
		return m.lastSnapOffset, false, nil
	}
	write := checkpoint.WriteFileNoSync
	if sync {
		write = checkpoint.WriteFile
	}
	if err := write(m.o.FS, m.path(offset), EncodeSnapshot(m.Entries())); err != nil {
		return offset, false, fmt.Errorf("producer snapshot: %w", err)
	}
	if i, found := slices.BinarySearch(m.snapshots, offset); !found {
		m.snapshots = slices.Insert(m.snapshots, i, offset)
	}
	m.lastSnapOffset = offset
	return offset, true, nil
}

// SyncSnapshot makes a snapshot that was taken without sync durable. One that
// is gone by now is not an error. It touches no state: it may run without the
// log's lock.
func SyncSnapshot(fsys vfs.FS, path string) error {
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync producer snapshot %s: %w", path, err)
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// DeleteSnapshotsBefore removes the snapshots below offset.
func (m *Manager) DeleteSnapshotsBefore(offset int64) error {
	for _, s := range slices.Clone(m.snapshots) {
		if s < offset {
			if err := m.removeSnapshot(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// RemoveStraySnapshots removes the snapshots that belong to no segment, except
// the newest one when it lies above all segments: a clean shutdown wrote it.
func (m *Manager) RemoveStraySnapshots(segmentBaseOffsets []int64) error {
	bases := slices.Sorted(slices.Values(segmentBaseOffsets))
	newestBase := int64(-1)
	if len(bases) > 0 {
		newestBase = bases[len(bases)-1]
	}
	newest, _ := m.LatestSnapshot()
	for _, s := range slices.Clone(m.snapshots) {
		if _, ok := slices.BinarySearch(bases, s); ok || (s == newest && s > newestBase) {
			continue
		}
		if err := m.removeSnapshot(s); err != nil {
			return err
		}
	}
	return nil
}

// DetachSnapshot forgets the snapshot at offset and renames its file to
// path + suffix, for a segment that is deleted later; ok is false when there
// is none.
func (m *Manager) DetachSnapshot(offset int64, suffix string) (path string, ok bool, err error) {
	i, found := slices.BinarySearch(m.snapshots, offset)
	if !found {
		return "", false, nil
	}
	m.snapshots = slices.Delete(m.snapshots, i, i+1)
	from := m.path(offset)
	err = m.o.FS.Rename(from, from+suffix)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("mark producer snapshot for deletion: %w", err)
	}
	return from + suffix, true, nil
}

func (m *Manager) removeSnapshot(offset int64) error {
	if i, found := slices.BinarySearch(m.snapshots, offset); found {
		m.snapshots = slices.Delete(m.snapshots, i, i+1)
	}
	return m.remove(m.path(offset))
}
