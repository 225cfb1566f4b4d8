package replica

import (
	"time"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/partition"
	"github.com/tidemark-io/tidemark/internal/storage/log"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
)

type topicConfig = config.TopicConfig

// proposeBackoff spaces out repeated proposals (the controller may be moving).
const proposeBackoff = 50 * time.Millisecond

// OnDirOffline is for the log manager: a data folder failed. Its partitions
// answer KAFKA_STORAGE_ERROR from now on, what waits for them is answered, and
// the others go on. It takes no lock that an append into the failed folder holds.
func (m *Manager) OnDirOffline(dir *logdir.Dir, err error) {
	n := 0
	for _, p := range m.table.Load().all() {
		v := p.view.Load()
		if v.log == nil || v.offline || v.log.Dir() != dir {
			continue
		}
		p.goOffline(v.log)
		m.resigned(p, v)
		n++
	}
	m.opts.Logger.Error("data folder is offline", "dir", dir.Path, "partitions", n, "err", err)
	if m.opts.OnDirFailed != nil {
		m.opts.OnDirFailed(dir.ID, err)
	}
}

// goOffline ends the replica's service until the next start of the broker.
func (p *Partition) goOffline(l *log.Log) {
	p.mu.Lock()
	p.core.Resign()
	p.publish(l, true, false)
	p.mu.Unlock()
	p.m.waker.wake(p)
}

// propose sends an ISR proposal; its result is one more input of the core.
func (m *Manager) propose(p *Partition, a partition.AlterPartition, retry bool) {
	if m.opts.Controller == nil {
		return
	}
	send := func() {
		m.opts.Controller.AlterPartition(p.tp, a, func(res partition.AlterResult) {
			p.step(func(c *partition.Core, now int64) partition.Effects {
				return c.AlterPartitionResult(now, res)
			})
			p.mu.Lock()
			p.republish()
			p.mu.Unlock()
			m.waker.wake(p)
		})
	}
	if !retry {
		send()
		return
	}
	time.AfterFunc(proposeBackoff, send)
}

// shrinkISRs looks for followers that fell behind.
func (m *Manager) shrinkISRs() {
	for _, p := range m.table.Load().all() {
		if v := p.view.Load(); v.role == partition.RoleLeader && !v.solo {
			p.step(func(c *partition.Core, now int64) partition.Effects { return c.Tick(now) })
		}
	}
}
