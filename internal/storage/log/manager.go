package log

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/storage/filecache"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/types"
)

// Manager owns the logs of all data folders (LogManager.scala).
type Manager struct {
	o       ManagerOptions
	cache   *filecache.Cache
	folders []*folder

	mu   sync.RWMutex
	logs map[types.TopicPartition]*Log
	of   map[*Log]*folder
	// creating counts the logs that are being made in a folder.
	creating map[*folder]int
	strays   []string

	striped    [32]sync.Mutex // creations and deletions of one partition, one at a time
	kick       chan struct{}
	stop       chan struct{}
	stopped    sync.Once
	runner     sync.WaitGroup // the background loop
	background sync.WaitGroup // what the folders started
}

// OpenManager loads, and where needed recovers, the logs of all folders in
// parallel, and starts the background work: retention, checkpoints, removals.
// A folder that fails goes offline and the rest go on; only when all have
// failed there is an error.
func OpenManager(o ManagerOptions) (*Manager, error) {
	o = o.withDefaults()
	m := &Manager{
		o: o, cache: filecache.New(o.FS, o.MaxOpenFiles),
		logs: map[types.TopicPartition]*Log{}, of: map[*Log]*folder{}, creating: map[*folder]int{},
		kick: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	for _, d := range o.Dirs {
		m.folders = append(m.folders, newFolder(m, d))
	}
	if err := m.loadAll(); err != nil {
		_, closeErr := m.Close(false)
		return nil, errors.Join(err, closeErr)
	}
	m.runner.Go(m.run)
	return m, nil
}

// Get returns the log of a partition.
func (m *Manager) Get(tp types.TopicPartition) (*Log, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	l, ok := m.logs[tp]
	return l, ok
}

// All returns every log.
func (m *Manager) All() []*Log {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make([]*Log, 0, len(m.logs))
	for _, l := range m.logs {
		out = append(out, l)
	}
	return out
}

// Strays returns the paths of partition folders that are out of service:
// marked stray, or of a kind that is not served.
func (m *Manager) Strays() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Clone(m.strays)
}

// OpenFiles returns how many files the logs hold open.
func (m *Manager) OpenFiles() int { return m.cache.Open() }

func (m *Manager) logsOf(f *folder) []*Log {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []*Log
	for l, of := range m.of {
		if of == f {
			out = append(out, l)
		}
	}
	return out
}

// detach takes the logs of a folder out of the table.
func (m *Manager) detach(f *folder) []*Log {
	logs := m.logsOf(f)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range logs {
		delete(m.logs, l.tp)
		delete(m.of, l)
	}
	return logs
}

func (m *Manager) attach(f *folder, l *Log) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.logs[l.tp]; ok {
		return false
	}
	m.logs[l.tp] = l
	m.of[l] = f
	return true
}

// Create makes the log of a partition in the folder with the fewest, or returns
// the one that is there if it has the same topic id (INCONSISTENT_TOPIC_ID
// otherwise). SyncNames sees to it that a power cut leaves the folder. The topic
// id and all names are on disk before the first record counts as durable; without
// records a log that lost them is made anew by the next Create.
func (m *Manager) Create(tp types.TopicPartition, topicID types.UUID, cfg config.TopicConfig) (*Log, error) {
	return m.CreateIn(types.UnassignedDir, tp, topicID, cfg)
}

// lock keeps creations and deletions of one partition apart; many partitions
// are created at the same time because each waits for the disk.
func (m *Manager) lock(tp types.TopicPartition) (unlock func()) {
	h := uint32(tp.Partition)
	for i := range len(tp.Topic) {
		h = h*31 + uint32(tp.Topic[i])
	}
	mu := &m.striped[h%uint32(len(m.striped))]
	mu.Lock()
	return mu.Unlock
}

// CreateIn is Create in the folder of the given directory id; UnassignedDir,
// LostDir and ZeroUUID leave the choice to the manager.
func (m *Manager) CreateIn(dirID types.UUID, tp types.TopicPartition, topicID types.UUID, cfg config.TopicConfig) (*Log, error) {
	defer m.lock(tp)()
	if l, ok := m.Get(tp); ok {
		if err := l.identify(topicID); err != nil {
			return nil, err
		}
		l.Reconfigure(cfg)
		return l, nil
	}
	f, err := m.choose(dirID)
	if err != nil {
		return nil, err
	}
	defer m.created(f)
	if err := f.forget(tp); err != nil {
		return nil, f.env.storage(err, "checkpoints of "+f.dir.Path)
	}
	l, err := f.create(tp, topicID, cfg)
	if err != nil {
		return nil, f.env.storage(err, "create the log of "+tp.String())
	}
	m.attach(f, l)
	f.env.logger.Info("created a log", "partition", tp.String(), "topicID", topicID.String())
	return l, nil
}

// forget makes sure that no checkpoint speaks of a deleted partition of the
// same name.
func (f *folder) forget(tp types.TopicPartition) error {
	f.mu.Lock()
	stale := f.stale[tp]
	f.mu.Unlock()
	if !stale {
		return nil
	}
	return f.checkpoint()
}

func (f *folder) create(tp types.TopicPartition, topicID types.UUID, cfg config.TopicConfig) (*Log, error) {
	fs, path := f.m.o.FS, f.dir.Join(tp.String())
	if err := fs.MkdirAll(path); err != nil {
		return nil, err
	}
	made := f.made.Add(1)
	l, err := open(f.env, source{tp: tp, path: path, dir: f.dir, cfg: cfg, clean: true})
	if err != nil {
		return nil, err
	}
	l.made = made
	// Nothing waits for the disk here: names and topic id are the first Sync's
	// (newNames, newID). The id is written before any record, so a file with records
	// has it beside it after a kill.
	if err = l.identify(topicID); err != nil {
		l.abandon()
		return nil, err
	}
	return l, nil
}

// identify gives a log its topic id, unless it has another one.
func (l *Log) identify(id types.UUID) error {
	have := l.TopicID()
	switch {
	case id.IsZero() || id == have:
		return nil
	case !have.IsZero():
		return kerrors.New(kerrors.InconsistentTopicID, "the log of %s has topic id %s, not %s", l.tp, have, id)
	}
	if err := logdir.WritePartitionMetadata(l.env.fs, l.Path(), id); err != nil {
		return l.env.storage(err, "topic id of "+l.tp.String())
	}
	l.topicID.Store(&id)
	l.mu.Lock()
	l.newID, l.newNames = true, true
	l.mu.Unlock()
	if l.end.Load() > l.start.Load() {
		l.env.sync(l) // nobody else may, for long
	}
	return nil
}

// SyncNames makes the folders of new logs durable, those of each data folder
// together: for whoever made many. A data folder that cannot goes offline.
func (m *Manager) SyncNames() {
	for _, f := range m.folders {
		if f.err() != nil {
			continue
		}
		if err := f.syncNamesTo(f.made.Load()); err != nil {
			f.offline(err)
		}
	}
}

// choose returns the folder for a new log: the named one, or the one with the
// fewest logs (LogManager.nextLogDirs), those that are being made included. The
// caller ends with created.
func (m *Manager) choose(dirID types.UUID) (*folder, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	named := !dirID.IsZero() && dirID != types.UnassignedDir && dirID != types.LostDir
	var counts map[*folder]int
	if !named && len(m.folders) > 1 { // counting takes a walk over all logs
		counts = maps.Clone(m.creating)
		for _, f := range m.of {
			counts[f]++
		}
	}
	var best *folder
	for _, f := range m.folders {
		if f.err() != nil || named && f.dir.ID != dirID {
			continue
		}
		if best == nil || counts[f] < counts[best] {
			best = f
		}
	}
	if best == nil {
		return nil, kerrors.New(kerrors.KafkaStorageError, "no log directory for a new log is online")
	}
	m.creating[best]++
	return best, nil
}

// created ends what choose began: the log is in the table now, or failed.
func (m *Manager) created(f *folder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.creating[f]--
}

// Delete takes a partition out of service: its folder is renamed to
// "topic-partition.id-delete" at once and removed after the delete delay. An
// unknown partition is no error.
func (m *Manager) Delete(tp types.TopicPartition) error { return m.retire(tp, deleteSuffix) }

// MarkStray takes a partition out of service that the metadata does not know;
// its folder is renamed to "topic-partition.id-stray" and kept.
func (m *Manager) MarkStray(tp types.TopicPartition) error { return m.retire(tp, straySuffix) }

func (m *Manager) retire(tp types.TopicPartition, suffix string) error {
	defer m.lock(tp)()
	m.mu.Lock()
	l, ok := m.logs[tp]
	f := m.of[l]
	if ok {
		delete(m.logs, tp)
		delete(m.of, l)
	}
	m.mu.Unlock()
	if !ok {
		return nil
	}
	l.abandon()
	to := f.dir.Join(retiredName(tp, suffix))
	if err := m.o.FS.Rename(l.Path(), to); err != nil {
		return f.env.storage(err, "rename the folder of "+tp.String())
	}
	l.folder.Set(to)
	if err := f.syncNames(); err != nil {
		return f.env.storage(err, "rename the folder of "+tp.String())
	}
	f.mu.Lock()
	f.stale[tp] = true
	f.due(m.o.Now() + startDelayMs)
	f.mu.Unlock()
	if suffix == deleteSuffix {
		f.removeTree(to, m.o.FileDeleteDelayMs)
	} else {
		m.mu.Lock()
		m.strays = append(m.strays, to)
		m.mu.Unlock()
	}
	f.env.logger.Info("took a partition out of service", "partition", tp.String(), "folder", to)
	return nil
}

// SetProducerExpirationMs changes producer.id.expiration.ms.
func (m *Manager) SetProducerExpirationMs(ms int64) {
	for _, f := range m.folders {
		f.env.producerExpirationMs.Store(ms)
	}
}

// Checkpoint writes the recovery points and log starts of all folders now.
func (m *Manager) Checkpoint() error {
	var errs []error
	for _, f := range m.folders {
		if f.err() == nil {
			errs = append(errs, f.env.storage(f.checkpoint(), "checkpoints of "+f.dir.Path))
		}
	}
	return errors.Join(errs...)
}

// DeleteOldSegments applies retention to every log now and returns how many
// segments went.
func (m *Manager) DeleteOldSegments() int {
	n := 0
	for _, l := range m.All() {
		gone, err := l.DeleteOldSegments(m.o.Now())
		if err != nil {
			l.env.logger.Warn("retention failed", "partition", l.tp.String(), "error", err)
		}
		n += gone
	}
	return n
}

func (m *Manager) removeExpiredProducers() {
	now := m.o.Now()
	for _, l := range m.All() {
		l.RemoveExpiredProducers(now)
	}
}

func (m *Manager) wake() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// run is the one background goroutine: it sleeps until something is due.
func (m *Manager) run() {
	now := m.o.Now()
	retention, expiry := now+m.o.RetentionCheckMs, now+m.o.ProducerExpirationCheckMs
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-m.kick:
		case <-timer.C:
		}
		now = m.o.Now()
		if now >= retention {
			m.DeleteOldSegments()
			retention = now + m.o.RetentionCheckMs
		}
		if now >= expiry {
			m.removeExpiredProducers()
			expiry = now + m.o.ProducerExpirationCheckMs
		}
		next := min(retention, expiry)
		for _, f := range m.folders {
			if at := f.tick(now); at != none {
				next = min(next, at)
			}
		}
		timer.Reset(time.Duration(max(1, next-m.o.Now())) * time.Millisecond)
	}
}

// Close stops the background work, syncs and closes all logs, and writes the
// checkpoints. It returns the folders that may now be marked as cleanly closed
// (logdir.Dir.CloseClean); with clean unset it writes nothing more and returns
// none, as a crash would leave things.
func (m *Manager) Close(clean bool) ([]*logdir.Dir, error) {
	m.stopped.Do(func() { close(m.stop) })
	m.runner.Wait()
	var mu sync.Mutex
	var done []*logdir.Dir
	var errs []error
	var wg sync.WaitGroup
	for _, f := range m.folders {
		wg.Go(func() {
			err := f.close(clean)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("close %s: %w", f.dir.Path, err))
			} else if clean {
				done = append(done, f.dir)
			}
		})
	}
	wg.Wait()
	m.background.Wait()
	return done, errors.Join(errs...)
}

func (f *folder) close(clean bool) error {
	logs := f.m.logsOf(f)
	if !clean {
		for _, l := range logs {
			l.abandon()
		}
		_ = f.loop.Close() // syncs of closed logs do nothing
		return nil
	}
	if err := f.loop.Close(); err != nil {
		return errors.Join(err, f.closeLogs(logs))
	}
	if err := f.closeLogs(logs); err != nil {
		return err
	}
	if err := f.err(); err != nil {
		return err
	}
	f.checkpointMu.Lock()
	defer f.checkpointMu.Unlock()
	return f.writeCheckpoints()
}

// closeLogs closes many logs at the same time: those that nobody wrote to yet wait
// for the sync of their names and topic ids.
func (f *folder) closeLogs(logs []*Log) error {
	return each(logs, syncsAtOnce, func(l *Log) error {
		if err := l.close(); err != nil {
			return fmt.Errorf("close the log of %s: %w", l.tp, err)
		}
		return nil
	})
}

// each calls fn for every item on n goroutines and joins the errors.
func each[T any](items []T, n int, fn func(T) error) error {
	work := make(chan T)
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for range min(n, len(items)) {
		wg.Go(func() {
			for it := range work {
				if err := fn(it); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, it := range items {
		work <- it
	}
	close(work)
	wg.Wait()
	return errors.Join(errs...)
}

// loadAll loads every folder at the same time.
func (m *Manager) loadAll() error {
	started := time.Now()
	var wg sync.WaitGroup
	errs := make([]error, len(m.folders))
	for i, f := range m.folders {
		wg.Go(func() { errs[i] = f.load() })
	}
	wg.Wait()
	failed, scanned := 0, int64(0)
	for i, err := range errs {
		scanned += m.folders[i].env.scannedBytes.Load()
		if err != nil {
			m.folders[i].offline(err)
			failed++
		}
	}
	if failed > 0 && failed == len(m.folders) {
		return fmt.Errorf("load logs: %w", errors.Join(errs...))
	}
	m.o.Logger.Info("loaded the logs", "logs", len(m.logs), "recoveredBytes", scanned, "tookMs", time.Since(started).Milliseconds())
	return nil
}

// load reads the checkpoints and opens every partition folder.
func (f *folder) load() error {
	points, err := f.offsets(checkpoint.RecoveryPointFile)
	if err != nil {
		return err
	}
	starts, err := f.offsets(checkpoint.LogStartFile)
	if err != nil {
		return err
	}
	names, err := f.m.o.FS.List(f.dir.Path)
	if err != nil {
		return err
	}
	var srcs []source
	for _, name := range names {
		info, err := f.m.o.FS.Stat(f.dir.Join(name))
		if err != nil {
			return err
		}
		if info.IsDir() {
			if src, ok := f.classify(name); ok {
				src.recoveryPoint, src.logStart = points[src.tp], starts[src.tp]
				srcs = append(srcs, src)
			}
		}
	}
	if !f.dir.CleanStart {
		// A process that was killed may not have come to it.
		if err := f.syncNames(); err != nil {
			return err
		}
	}
	scans := make(chan struct{}, f.m.o.RecoveryThreadsPerDir)
	return each(srcs, f.m.o.RecoveryThreadsPerDir+syncsAtOnce, func(src source) error { return f.loadOne(src, scans) })
}

// syncsAtOnce is how many logs of a folder are synced at the same time when many
// are at once: a journal takes those that wait together.
const syncsAtOnce = 64

// classify says what a folder is; false when there is nothing to load.
func (f *folder) classify(name string) (source, bool) {
	tp, suffix, err := ParseFolderName(name)
	path := f.dir.Join(name)
	switch {
	case err != nil:
		f.env.logger.Warn("a folder is not a partition; left alone", "error", err)
	case tp.Topic == types.ClusterMetadataTopic: // the quorum's
	case suffix == deleteSuffix:
		f.removeTree(path, f.m.o.FileDeleteDelayMs)
	case suffix != "":
		f.env.logger.Warn("a partition folder is out of service and takes space until it is removed by hand", "folder", path)
		f.m.mu.Lock()
		f.m.strays = append(f.m.strays, path)
		f.m.mu.Unlock()
	default:
		return source{tp: tp, path: path, dir: f.dir, clean: f.dir.CleanStart}, true
	}
	return source{}, false
}

// loadOne opens the log of a folder. As many as fit into scans read at the same
// time; others wait for the disk meanwhile.
func (f *folder) loadOne(src source, scans chan struct{}) error {
	src.cfg = f.m.o.TopicConfig(src.tp.Topic)
	id, _, err := logdir.ReadPartitionMetadata(f.m.o.FS, src.path)
	if errors.Is(err, checkpoint.ErrCorrupt) {
		f.env.logger.Warn("the topic id of a partition cannot be read", "partition", src.tp.String(), "error", err)
		err = nil
	}
	if err != nil {
		return err
	}
	src.topicID = id
	scans <- struct{}{}
	l, err := open(f.env, src)
	<-scans
	if err == nil {
		err = l.settle()
	}
	if err != nil {
		return fmt.Errorf("load %s: %w", src.path, err)
	}
	if !f.m.attach(f, l) {
		l.abandon()
		return fmt.Errorf("%s is in two log directories; remove one of them (the one that failed last): %s", src.tp, src.path)
	}
	return nil
}
