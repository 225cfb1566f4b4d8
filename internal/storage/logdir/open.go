package logdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// ErrNotFormatted says that a folder has no meta.properties.
var ErrNotFormatted = errors.New("the folder is not formatted: it has no " + MetaPropertiesFile)

// MismatchError refuses a folder that belongs to someone else.
type MismatchError struct {
	Path string
	What string // "cluster" or "node"
	Have string // what meta.properties says
	Want string // what this process is
}

// Error says whose the folder is and what to do.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s belongs to %s %s, but this is %s %s: start with the folder of this %s, or with the settings of that one (%s)",
		e.Path, e.What, e.Have, e.What, e.Want, e.What, MetaPropertiesFile)
}

// Options say what folders to open and for whom.
type Options struct {
	FS    vfs.FS
	Paths []string // log.dirs; at least one
	// NodeID must match every folder that is formatted.
	NodeID int32
	// ClusterID must match too; empty accepts the one that is there, or draws
	// a new one when nothing is formatted yet.
	ClusterID string
	// Format gives a folder that is missing or empty its meta.properties.
	// Without it such a folder is refused with ErrNotFormatted.
	Format bool
	// Random is a source of uniform bytes for new ids, such as crypto/rand.Reader.
	Random io.Reader
	// Now is written as a comment into new files.
	Now time.Time
	// OnOffline hears once of each folder that fails later. May be nil.
	OnOffline func(*Dir, error)
	// OnReport hears what was repaired or ignored. May be nil.
	OnReport func(path string, what error)
}

// Set is what OpenAll opened.
type Set struct {
	ClusterID string
	NodeID    int32
	Dirs      []*Dir           // in the order of Options.Paths
	Failed    map[string]error // paths that could not be read or written
	Formatted bool             // at least one folder was formatted just now
}

// OpenAll locks, checks, and where allowed formats, all data folders of a node.
// A folder with an I/O error goes to Failed and the rest go on, as in Kafka
// (JBOD); a folder that is in use, belongs to another cluster or node, shares
// its id with another or holds foreign files is an error for all, because
// going on could write into it. Nothing stays locked after an error.
func OpenAll(o Options) (*Set, error) {
	if len(o.Paths) == 0 {
		return nil, errors.New("log.dirs names no folder")
	}
	if o.OnReport == nil {
		o.OnReport = func(string, error) {}
	}
	op := opener{o: o, set: &Set{ClusterID: o.ClusterID, NodeID: o.NodeID, Failed: map[string]error{}}}
	if err := op.run(); err != nil {
		for _, d := range op.set.Dirs {
			err = errors.Join(err, d.Close())
		}
		return nil, err
	}
	return op.set, nil
}

// Open is OpenAll for one folder, where a folder that fails is an error.
func Open(o Options) (*Dir, error) {
	if len(o.Paths) != 1 {
		return nil, fmt.Errorf("open one folder: %d given", len(o.Paths))
	}
	s, err := OpenAll(o)
	if err != nil {
		return nil, err
	}
	return s.Dirs[0], nil
}

// PreviousBrokerEpoch returns the broker epoch of the last process if all
// folders were closed cleanly by it, else NoBrokerEpoch (KIP-966: only then
// may the broker keep its place among the eligible leaders).
func (s *Set) PreviousBrokerEpoch() int64 {
	if len(s.Dirs) == 0 || len(s.Failed) > 0 {
		return NoBrokerEpoch
	}
	epoch := s.Dirs[0].BrokerEpoch
	for _, d := range s.Dirs {
		if !d.CleanStart || d.BrokerEpoch != epoch {
			return NoBrokerEpoch
		}
	}
	return epoch
}

type opener struct {
	o   Options
	set *Set
}

func (op *opener) run() error {
	unformatted := map[*Dir]bool{}
	for _, path := range op.o.Paths {
		d, formatted, err := op.openOne(path)
		if err != nil {
			return err
		}
		if d != nil && !formatted {
			unformatted[d] = true
		}
	}
	if len(op.set.Dirs) == 0 {
		return fmt.Errorf("no data folder is usable: %w", errors.Join(sortedErrors(op.set.Failed)...))
	}
	if err := op.decideClusterID(); err != nil {
		return err
	}
	for _, d := range slices.Clone(op.set.Dirs) {
		if err := op.finish(d, unformatted[d]); err != nil {
			if fatal(err) {
				return err
			}
			op.fail(d, err)
		}
	}
	if len(op.set.Dirs) == 0 {
		return fmt.Errorf("no data folder is usable: %w", errors.Join(sortedErrors(op.set.Failed)...))
	}
	return op.checkUnique()
}

// fatalError marks what must stop the start, unlike an I/O error of one disk.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

func fatal(err error) bool {
	var f fatalError
	return errors.As(err, &f)
}

// openOne locks a folder and reads whose it is. d is nil when the folder
// failed and went to Failed.
func (op *opener) openOne(path string) (d *Dir, formatted bool, err error) {
	d = &Dir{Path: path, fs: op.o.FS, onOffline: op.o.OnOffline, BrokerEpoch: NoBrokerEpoch}
	meta, formatted, err := op.lockAndRead(d)
	if err == nil {
		op.set.Dirs = append(op.set.Dirs, d)
	} else if d.lock != nil {
		err = errors.Join(err, d.Close())
	}
	switch {
	case err == nil && formatted:
		d.ClusterID, d.NodeID, d.ID = meta.ClusterID, meta.NodeID, meta.DirectoryID
		return d, true, op.checkOwner(d)
	case err == nil:
		return d, false, nil
	case fatal(err):
		return nil, false, err
	}
	op.set.Failed[path] = err
	return nil, false, nil
}

func (op *opener) lockAndRead(d *Dir) (meta MetaProperties, formatted bool, err error) {
	if err := op.ensureFolder(d.Path); err != nil {
		return meta, false, err
	}
	// Looked at before the lock too: a folder that is refused keeps no lock file.
	if _, _, err := op.inspect(d.Path); fatal(err) {
		return meta, false, err
	}
	d.lock, err = op.o.FS.Lock(filepath.Join(d.Path, LockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return meta, false, fatalError{fmt.Errorf("%s is in use: another broker has it open, or log.dirs names it twice: %w", d.Path, err)}
	}
	if err != nil {
		return meta, false, fmt.Errorf("lock %s: %w", d.Path, err)
	}
	return op.inspect(d.Path)
}

// inspect reads whose folder it is, and refuses one that is nobody's yet and
// must not be formatted.
func (op *opener) inspect(path string) (meta MetaProperties, formatted bool, err error) {
	meta, err = ReadMetaProperties(op.o.FS, path)
	switch {
	case err == nil:
		return meta, true, nil
	case !errors.Is(err, ErrNotFormatted):
		// Going on without it could format over someone's data.
		return meta, false, fatalIfContent(err)
	case !op.o.Format:
		return meta, false, fatalError{err}
	}
	return meta, false, op.checkEmpty(path)
}

// fatalIfContent makes a meta.properties that reads but does not parse stop
// the start; one that cannot be read at all is a failing disk.
func fatalIfContent(err error) error {
	if errors.Is(err, checkpoint.ErrCorrupt) {
		return fatalError{err}
	}
	return err
}

// ensureFolder makes the folder when formatting is allowed, with its name and
// its parents' names durable.
func (op *opener) ensureFolder(path string) error {
	info, err := op.o.FS.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return fatalError{fmt.Errorf("%s is a file, not a folder", path)}
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("data folder: %w", err)
	case !op.o.Format:
		return fatalError{fmt.Errorf("%s: %w", path, ErrNotFormatted)}
	}
	missing := []string{path}
	for p := filepath.Dir(path); p != missing[len(missing)-1]; p = filepath.Dir(p) {
		if _, err := op.o.FS.Stat(p); err == nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, p)
	}
	if err := op.o.FS.MkdirAll(path); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	for _, p := range slices.Backward(missing) {
		if err := op.o.FS.SyncDir(filepath.Dir(p)); err != nil {
			return fmt.Errorf("make data folder: %w", err)
		}
	}
	return nil
}

// checkEmpty refuses to format a folder with files that are not ours. What an
// interrupted format leaves is ours.
func (op *opener) checkEmpty(path string) error {
	names, err := op.o.FS.List(path)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	for _, n := range names {
		switch n {
		case LockFile, MetaPropertiesFile + checkpoint.TempSuffix, "lost+found":
		default:
			return fatalError{fmt.Errorf("%s has no %s but holds %q: not formatting over it; choose an empty folder, or restore the file", path, MetaPropertiesFile, n)}
		}
	}
	return nil
}

func (op *opener) checkOwner(d *Dir) error {
	if d.NodeID != op.o.NodeID {
		return fatalError{&MismatchError{Path: d.Path, What: "node", Have: fmt.Sprint(d.NodeID), Want: fmt.Sprint(op.o.NodeID)}}
	}
	if op.set.ClusterID == "" {
		op.set.ClusterID = d.ClusterID
	}
	if d.ClusterID != op.set.ClusterID {
		return fatalError{&MismatchError{Path: d.Path, What: "cluster", Have: d.ClusterID, Want: op.set.ClusterID}}
	}
	return nil
}

func (op *opener) decideClusterID() error {
	if op.set.ClusterID != "" {
		return nil
	}
	id, err := types.NewUUID(op.o.Random)
	if err != nil {
		return fmt.Errorf("new cluster id: %w", err)
	}
	op.set.ClusterID = id.String()
	return nil
}

// finish formats a folder that is not, gives an old one its id, and takes the
// clean-shutdown marker.
func (op *opener) finish(d *Dir, format bool) error {
	if format || d.ID.IsZero() {
		id, err := types.NewUUID(op.o.Random)
		if err != nil {
			return fatalError{fmt.Errorf("new directory id: %w", err)}
		}
		d.ID, d.ClusterID, d.NodeID = id, op.set.ClusterID, op.set.NodeID
		meta := MetaProperties{ClusterID: d.ClusterID, NodeID: d.NodeID, DirectoryID: d.ID}
		if err := writeMetaProperties(op.o.FS, d.Path, meta, op.o.Now); err != nil {
			return err
		}
		op.set.Formatted = op.set.Formatted || format
	}
	clean, epoch, report, err := takeCleanShutdown(op.o.FS, d.Path)
	if err != nil {
		return err
	}
	if report != nil {
		op.o.OnReport(d.Path, report)
	}
	d.CleanStart, d.BrokerEpoch = clean, epoch
	return nil
}

func (op *opener) fail(d *Dir, err error) {
	op.set.Failed[d.Path] = errors.Join(err, d.Close())
	op.set.Dirs = slices.DeleteFunc(op.set.Dirs, func(x *Dir) bool { return x == d })
}

func (op *opener) checkUnique() error {
	seen := map[types.UUID]*Dir{}
	for _, d := range op.set.Dirs {
		if other := seen[d.ID]; other != nil {
			return fmt.Errorf("%s and %s have the same directory.id %s: one is a copy of the other; remove one from log.dirs", other.Path, d.Path, d.ID)
		}
		seen[d.ID] = d
	}
	return nil
}

func sortedErrors(m map[string]error) []error {
	var out []error
	for _, p := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Errorf("%s: %w", p, m[p]))
	}
	return out
}
