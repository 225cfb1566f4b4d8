package replica

import (
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/partition"
	"github.com/tidemark-io/tidemark/internal/storage/log"
	"github.com/tidemark-io/tidemark/internal/types"
)

// applyParallel bounds how many partitions change at once: a change writes and
// syncs small files.
const applyParallel = 8

// ApplyDelta makes the local partitions what the new image says: partitions
// that are gone are removed, new ones get a log, leaders and followers take
// their epochs, changed configurations come into force. It returns when all of
// that holds. A partition whose folder fails is left offline; the others go on.
func (m *Manager) ApplyDelta(d *image.Delta, im *image.Image) {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	m.image.Store(im)
	changes := d.LocalChanges(m.opts.NodeID)
	m.deleteAll(changes.Deletes)
	m.createAll(im, changes)
	m.applyConfigs(d, im)
	m.applyBrokers(d)
}

// SetStraysAside takes logs out of service that the metadata does not give to this broker:
// their topic was deleted, or replaced by one of the same name, while the broker
// was down. Their folders are renamed and kept, as Apache Kafka does
// (LogManager.asyncDelete with isStray): should the metadata be wrong, the data is
// still there. Call it once the image contains the broker's own registration, never
// before: an image of an earlier time would make live logs look like strays.
func (m *Manager) SetStraysAside() {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	im := m.image.Load()
	var again image.LocalChanges
	for _, l := range m.logs.All() {
		tp := l.TopicPartition()
		id, part := m.assigned(im, tp)
		if part != nil && (l.TopicID() == id || l.TopicID().IsZero()) {
			continue
		}
		m.opts.Logger.Warn("the metadata does not give this log to this broker: its topic was deleted or made anew while the broker was away; "+
			"the folder is renamed and kept, remove it when nobody needs the data", "partition", tp.String(), "topicID", l.TopicID().String())
		if err := m.logs.MarkStray(tp); err != nil {
			m.opts.Logger.Error("cannot set a stray log aside", "partition", tp.String(), "err", err)
			continue
		}
		if part != nil { // the newer topic of that name waited for its folder
			lp := image.LocalPartition{TP: types.TopicIDPartition{TopicID: id, Topic: tp.Topic, Partition: tp.Partition}, After: part}
			if part.Leader == m.opts.NodeID {
				again.Leaders = append(again.Leaders, lp)
			} else {
				again.Followers = append(again.Followers, lp)
			}
		}
	}
	m.createAll(im, again)
}

// assigned returns the partition of that name if it has a replica here.
func (m *Manager) assigned(im *image.Image, tp types.TopicPartition) (types.UUID, *image.Partition) {
	t, ok := im.Topics.ByName(tp.Topic)
	if !ok || int(tp.Partition) >= len(t.Partitions) || !t.Partitions[tp.Partition].HasReplica(m.opts.NodeID) {
		return types.UUID{}, nil
	}
	return t.ID, t.Partitions[tp.Partition]
}

func (m *Manager) deleteAll(gone []image.LocalPartition) {
	if len(gone) == 0 {
		return
	}
	edit := editTable(m.table.Load())
	var removed []*Partition
	for _, lp := range gone {
		if p := edit.get(lp.TP); p != nil {
			removed = append(removed, p)
			edit.remove(lp.TP)
		}
	}
	m.table.Store(edit.table())
	m.parallel(len(removed), func(i int) { m.deletePartition(removed[i]) })
}

func (m *Manager) deletePartition(p *Partition) {
	p.leadership.Lock()
	p.mu.Lock()
	v := p.view.Load()
	p.core.Resign()
	p.publish(v.log, v.offline, true)
	p.mu.Unlock()
	p.leadership.Unlock()
	m.resigned(p, v)
	m.waker.wake(p)
	if v.log == nil || v.offline {
		return
	}
	if err := m.logs.Delete(p.tp.TopicPartition()); err != nil {
		m.opts.Logger.Error("cannot delete a partition's log", "partition", p.tp.TopicPartition().String(), "err", err)
	}
}

// createAll gives every changed partition its Partition and role. The table is
// published last, so that nobody finds a partition that is not ready.
func (m *Manager) createAll(im *image.Image, changes image.LocalChanges) {
	locals := slices.Concat(changes.Leaders, changes.Followers)
	if len(locals) == 0 {
		return
	}
	edit := editTable(m.table.Load())
	parts := make([]*Partition, len(locals))
	configs := m.configsOf(im)
	for i, lp := range locals {
		if parts[i] = edit.get(lp.TP); parts[i] == nil {
			parts[i] = newPartition(m, lp.TP, configs(lp.TP.Topic), 0)
			edit.put(parts[i])
		}
	}
	m.parallel(len(locals), func(i int) { m.become(parts[i], locals[i].After) })
	m.table.Store(edit.table())
	m.logs.SyncNames()
	for i, p := range parts {
		v := p.view.Load()
		if v.check() == kerrors.None {
			p.durable(v.log.DurableEndOffset()) // what the commit loop said before the table had p
		}
		m.elected(p, locals[i].Before, v)
	}
}

// become puts a partition into the role that the metadata gives this broker.
func (m *Manager) become(p *Partition, reg *image.Partition) {
	st := stateOf(reg)
	v := p.view.Load()
	if v.deleted || v.log != nil && (v.offline || st.PartitionEpoch < v.partitionEpoch) {
		return // one that never got its log is tried again
	}
	l, err := m.logOf(p, v, reg)
	if err != nil {
		if !v.offline {
			m.opts.Logger.Error("partition is offline: no log", "partition", p.tp.TopicPartition().String(), "err", err)
		}
		p.goOffline(nil)
		m.missing.Add(1)
		return
	}
	p.leadership.Lock()
	defer p.leadership.Unlock()
	leads := st.Leader == m.opts.NodeID
	if leads && st.LeaderEpoch > v.leaderEpoch {
		// Written before anything is appended in the epoch, outside p.mu: the
		// commit loop must not wait for it.
		// On a full disk the log tries again with every append, and refuses the
		// append as long as it fails; a failed folder goes offline by itself.
		if err := l.AssignLeaderEpoch(st.LeaderEpoch); err != nil {
			m.opts.Logger.Error("cannot record the leader epoch", "partition", p.tp.TopicPartition().String(), "epoch", st.LeaderEpoch, "err", err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if v.log == nil {
		p.core = partition.New(p.coreConfig(p.cfg), l.HighWatermark())
	}
	var fx partition.Effects
	if leads {
		fx = p.core.BecomeLeader(m.opts.NowMs(), st, logEnds(l))
	} else {
		fx = p.core.BecomeFollower(st, logEnds(l))
	}
	p.publish(l, false, false)
	p.settle(l, fx)
	m.waker.wake(p)
}

// retryMissing makes the logs that could not be made before.
func (m *Manager) retryMissing() {
	if m.missing.Swap(0) == 0 {
		return
	}
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	im := m.image.Load()
	var again image.LocalChanges
	for _, p := range m.table.Load().all() {
		v := p.view.Load()
		if !v.offline || v.log != nil {
			continue
		}
		if id, part := m.assigned(im, p.tp.TopicPartition()); part != nil && id == p.tp.TopicID {
			again.Leaders = append(again.Leaders, image.LocalPartition{TP: p.tp, After: part})
		}
	}
	m.createAll(im, again)
}

// logOf returns the partition's log, made where the metadata assigns it. An
// assigned folder that is unknown here may be one that failed: then nothing is
// made, lest the partition come back empty (Partition.createLogInAssignedDirectoryId).
func (m *Manager) logOf(p *Partition, v *view, reg *image.Partition) (*log.Log, error) {
	if v.log != nil {
		return v.log, nil
	}
	tp := p.tp.TopicPartition()
	assigned, _ := reg.Directory(m.opts.NodeID)
	known, failed := false, len(m.opts.FailedDirs) > 0
	for _, d := range m.dirs() {
		known = known || d.ID == assigned
		failed = failed || d.IsOffline()
	}
	// With several folders and no assignment only a partition that has never had a
	// leader before is surely nowhere.
	old := reg.LeaderEpoch > 0 || reg.PartitionEpoch > 0
	if _, here := m.logs.Get(tp); known || here || assigned.Reserved() && !(failed && old) {
		return m.logs.CreateIn(assigned, tp, p.tp.TopicID, p.cfg)
	}
	if failed {
		return nil, kerrors.New(kerrors.KafkaStorageError, "%s may be in a folder that is not online (assigned to %s)", tp, assigned)
	}
	return m.logs.Create(tp, p.tp.TopicID, p.cfg)
}

func stateOf(reg *image.Partition) partition.State {
	return partition.State{
		Leader: reg.Leader, LeaderEpoch: reg.LeaderEpoch, PartitionEpoch: reg.PartitionEpoch,
		Replicas: reg.Replicas, ISR: reg.ISR, Adding: reg.AddingReplicas, Removing: reg.RemovingReplicas,
		Recovering: reg.LeaderRecoveryState != 0,
	}
}

// elected and resigned tell the coordinators of internal topics.
func (m *Manager) elected(p *Partition, before *image.Partition, v *view) {
	if m.opts.Leadership == nil || !types.IsInternalTopic(p.tp.Topic) {
		return
	}
	tp := p.tp.TopicPartition()
	switch {
	case v.leading(-1) != kerrors.None:
		m.opts.Leadership.OnResigned(tp)
	case before == nil || before.Leader != m.opts.NodeID || before.LeaderEpoch != v.leaderEpoch:
		m.opts.Leadership.OnElected(tp, v.leaderEpoch)
	}
}

func (m *Manager) resigned(p *Partition, was *view) {
	if m.opts.Leadership != nil && types.IsInternalTopic(p.tp.Topic) && was.role == partition.RoleLeader {
		m.opts.Leadership.OnResigned(p.tp.TopicPartition())
	}
}

// configsOf resolves each topic's configuration once.
func (m *Manager) configsOf(im *image.Image) func(topic string) topicConfig {
	known := map[string]topicConfig{}
	return func(topic string) topicConfig {
		cfg, ok := known[topic]
		if !ok {
			cfg = m.opts.TopicConfig(im, topic)
			if types.IsInternalTopic(topic) {
				cfg.Durability = config.Strict // always (design decision D9)
			}
			known[topic] = cfg
		}
		return cfg
	}
}

// applyConfigs brings changed topic configurations, and topic defaults set on
// this broker or for all brokers, into force.
func (m *Manager) applyConfigs(d *image.Delta, im *image.Image) {
	t := m.table.Load()
	configs := m.configsOf(im)
	self := strconv.Itoa(int(m.opts.NodeID))
	for r := range d.ChangedConfigs() {
		switch {
		case r.Type == image.ResourceTopic:
			if h := t.byName[r.Name]; h != nil {
				m.reconfigure(h.parts, configs(r.Name))
			}
		case r.Type == image.ResourceBroker && (r.Name == "" || r.Name == self):
			for name, h := range t.byName {
				m.reconfigure(h.parts, configs(name))
			}
		}
	}
}

func (m *Manager) reconfigure(parts []*Partition, cfg topicConfig) {
	for _, p := range parts {
		if p == nil {
			continue
		}
		if v := p.view.Load(); v.log != nil && !v.offline {
			v.log.Reconfigure(cfg)
		}
		p.mu.Lock()
		p.cfg = cfg
		p.mu.Unlock()
		p.step(func(c *partition.Core, now int64) partition.Effects { return c.Configure(now, p.coreConfig(cfg)) })
		p.mu.Lock()
		p.republish()
		p.mu.Unlock()
		m.waker.wake(p)
	}
}

// applyBrokers looks again at partitions that wait for a broker which may have
// gone: the low watermark counts alive brokers only.
func (m *Manager) applyBrokers(d *image.Delta) {
	changed := false
	for range d.ChangedBrokers() {
		changed = true
		break
	}
	if !changed || m.deletes.Waiting() == 0 {
		return
	}
	for _, p := range m.table.Load().all() {
		if !p.view.Load().solo {
			m.waker.wake(p)
		}
	}
}

func (m *Manager) parallel(n int, do func(i int)) {
	var g errgroup.Group
	g.SetLimit(applyParallel)
	for i := range n {
		g.Go(func() error { do(i); return nil })
	}
	_ = g.Wait() // do reports its own errors
}
