package replica

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/partition"
	"github.com/tidemark-io/tidemark/internal/purgatory"
	"github.com/tidemark-io/tidemark/internal/storage/log"
	"github.com/tidemark-io/tidemark/internal/types"
)

// Manager holds the partitions of one broker. Its methods are safe for
// concurrent use, except that ApplyDelta calls must come one at a time.
type Manager struct {
	opts Options
	logs *log.Manager

	applyMu sync.Mutex // one metadata change at a time
	table   atomic.Pointer[table]
	image   atomic.Pointer[image.Image]

	produces *purgatory.Purgatory[*Partition]
	fetches  *purgatory.Purgatory[*Partition]
	deletes  *purgatory.Purgatory[*Partition]
	waker    *waker

	checkpoints checkpoints
	stop        chan struct{}
	background  sync.WaitGroup
	responding  sync.WaitGroup // answers of parked fetches under way
	// refusing ends appends for good; producing counts Produce calls that are not
	// answered (see FinishProduces).
	refusing  atomic.Bool
	producing atomic.Int64
	// missing counts partitions whose log could not be made (a full disk).
	missing atomic.Int32
}

// New returns a manager without logs. Its OnDurable and OnDirOffline go into
// the log manager's options; Start then takes the log manager.
func New(opts Options) *Manager {
	m := &Manager{opts: opts.withDefaults(), stop: make(chan struct{})}
	m.table.Store(&table{byName: map[string]*hosted{}})
	m.image.Store(image.Empty())
	po := purgatory.Options{MaxOperations: m.opts.MaxParked, OnPanic: m.opts.OnPanic}
	m.produces = purgatory.New[*Partition](po)
	m.fetches = purgatory.New[*Partition](po)
	m.deletes = purgatory.New[*Partition](po)
	m.waker = newWaker(m.opts.Wakers, m.watched, m.complete)
	return m
}

// SetLeadership sets Options.Leadership; call it before Start. It is for
// coordinators that need the manager to be made first.
func (m *Manager) SetLeadership(l LeadershipListener) { m.opts.Leadership = l }

// Start takes the recovered logs, reads the high watermark checkpoints and
// begins the background work. Call it once, before ApplyDelta.
func (m *Manager) Start(logs *log.Manager) {
	m.logs = logs
	m.checkpoints.load(m.dirs(), logs, m.opts.Logger)
	m.background.Go(func() {
		m.every(m.opts.CheckpointMs, func() {
			m.CheckpointHighWatermarks()
			m.retryMissing()
		})
	})
	m.background.Go(func() { m.every(m.opts.LagTimeMaxMs/2, m.shrinkISRs) })
}

// Close ends the background work, answers what still waits, and writes the high
// watermarks a last time. The logs stay open: their owner closes them.
func (m *Manager) Close() {
	close(m.stop)
	m.background.Wait()
	m.produces.Close()
	m.fetches.Close()
	m.deletes.Close()
	m.responding.Wait()
	m.waker.close()
	if m.logs != nil {
		m.CheckpointHighWatermarks()
	}
}

func (m *Manager) every(ms int64, do func()) {
	t := time.NewTicker(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-t.C:
			do()
		}
	}
}

// watched reports whether anything may wait for p; see purgatory.MayWatch.
func (m *Manager) watched(p *Partition) bool {
	return m.produces.MayWatch(p) || m.fetches.MayWatch(p) || m.deletes.MayWatch(p)
}

// complete looks at everything that waits for p.
func (m *Manager) complete(p *Partition) {
	m.produces.Complete(p)
	m.fetches.Complete(p)
	m.deletes.Complete(p)
}

// OnDurable is for the log manager: l is durable below end. It is cheap: one
// call per log and fsync, no disk, no waiting operation is run here.
func (m *Manager) OnDurable(l *log.Log, end int64) {
	tp := l.TopicPartition()
	p := m.table.Load().get(tp.Topic, tp.Partition)
	if p == nil || p.view.Load().log != l {
		return
	}
	p.durable(end)
}

// broker is what the newest image says of a broker.
func (m *Manager) broker(id int32) partition.Broker {
	b, ok := m.image.Load().Cluster.Broker(id)
	if !ok {
		return partition.Broker{}
	}
	return partition.Broker{Known: true, Epoch: b.Epoch, Fenced: b.Fenced, ShuttingDown: b.InControlledShutdown}
}

// CurrentLeader returns the leader of a partition, false when the metadata
// does not know it.
func (m *Manager) CurrentLeader(tp types.TopicPartition) (LeaderHint, bool) {
	if p := m.table.Load().get(tp.Topic, tp.Partition); p != nil {
		return *p.view.Load().hint(), true
	}
	topic, ok := m.image.Load().Topics.ByName(tp.Topic)
	if !ok || tp.Partition < 0 || int(tp.Partition) >= len(topic.Partitions) {
		return LeaderHint{LeaderID: -1, LeaderEpoch: -1}, false
	}
	part := topic.Partitions[tp.Partition]
	return LeaderHint{LeaderID: part.Leader, LeaderEpoch: part.LeaderEpoch}, true
}

// hintFor is CurrentLeader for an answer: nil unless the code calls for it.
func (m *Manager) hintFor(tp types.TopicIDPartition, code kerrors.Code, fenced bool) *LeaderHint {
	if code != kerrors.NotLeaderOrFollower && (!fenced || code != kerrors.FencedLeaderEpoch) {
		return nil
	}
	h, ok := m.CurrentLeader(tp.TopicPartition())
	if !ok {
		return nil
	}
	return &h
}

// Waiting says per kind of operation how many wait now, for metrics.
func (m *Manager) Waiting() map[string]func() int {
	return map[string]func() int{"produce": m.produces.Waiting, "fetch": m.fetches.Waiting, "delete_records": m.deletes.Waiting}
}
