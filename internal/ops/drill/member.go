package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitEvery is how often a member commits what it has processed.
const commitEvery = 100 * time.Millisecond

// commitTimeout bounds one commit.
const commitTimeout = 10 * time.Second

// member is one consumer of the drill's group. It processes a record by counting
// it, so what stops it is the group and nothing else.
type member struct {
	id      int
	run     *run
	cl      *kgo.Client
	cable   *cable
	ctx     context.Context
	stop    context.CancelFunc // ends everything at once
	polling context.CancelFunc // ends only the reading
	reader  sync.WaitGroup
	loops   sync.WaitGroup
	closed  sync.Once

	commitMu sync.Mutex // over a whole commit, and over giving up partitions
	mu       sync.Mutex // guards what follows
	killed   bool
	pending  map[int32]int64 // next offset to commit, by partition
}

func (r *run) newMember(id int) (*member, error) {
	m := &member{id: id, run: r, cable: newCable(r.o.TLS), pending: map[int32]int64{}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	opts := []kgo.Opt{
		kgo.SeedBrokers(r.o.Bootstrap...), kgo.ClientID(m.name()), kgo.WithContext(m.ctx), kgo.Dialer(m.cable.dial),
		kgo.ConsumerGroup(r.group), kgo.ConsumeTopics(r.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.FetchMaxWait(250 * time.Millisecond),
		kgo.SessionTimeout(r.o.Session), kgo.HeartbeatInterval(r.o.Heartbeat),
		kgo.WithLogger(kgo.BasicLogger(io.Discard, kgo.LogLevelNone, nil)),
		kgo.OnPartitionsAssigned(m.assigned), kgo.OnPartitionsRevoked(m.revoked), kgo.OnPartitionsLost(m.lost),
	}
	cl, err := kgo.NewClient(append(opts, balancer(r.protocol)...)...)
	if err != nil {
		m.stop()
		return nil, err
	}
	m.cl = cl
	ctx, cancel := context.WithCancel(m.ctx)
	m.polling = cancel
	m.reader.Go(func() { m.poll(ctx) })
	m.loops.Go(m.commitLoop)
	return m, nil
}

func balancer(p Protocol) []kgo.Opt {
	switch p {
	case Eager:
		return []kgo.Opt{kgo.Balancers(kgo.StickyBalancer())}
	case Cooperative:
		return []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}
	}
	return []kgo.Opt{kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()}
}

func (m *member) name() string { return memberName(m.id) }

func memberName(id int) string {
	if id == nobody {
		return ""
	}
	return fmt.Sprintf("member-%d", id+1)
}

func (m *member) poll(ctx context.Context) {
	for ctx.Err() == nil {
		m.cl.PollFetches(ctx).EachRecord(m.process)
		m.cl.AllowRebalance()
	}
}

func (m *member) process(rec *kgo.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.killed { // a dead process does nothing with what its socket still held
		return
	}
	m.run.processed(rec.Partition, m.id, rec.Offset)
	m.pending[rec.Partition] = rec.Offset + 1
}

func (m *member) commitLoop() {
	t := time.NewTicker(commitEvery)
	defer t.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-t.C:
			m.commitMu.Lock()
			m.commit(m.ctx)
			m.commitMu.Unlock()
		}
	}
}

// commit sends what is pending as the member that we are now. The drill sends
// the request itself: franz-go's own commit waits while a rebalance is on, and
// the answer that a coordinator gives then is what is to be seen.
func (m *member) commit(parent context.Context) {
	m.mu.Lock()
	offsets := maps.Clone(m.pending)
	dead := m.killed
	m.mu.Unlock()
	id, generation := m.cl.GroupMetadata()
	if len(offsets) == 0 || dead || generation < 0 {
		return
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = m.run.group, id, generation
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = m.run.topic, m.run.topicID
	for p, offset := range offsets {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = p, offset
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics = append(req.Topics, topic)
	ctx, cancel := context.WithTimeout(parent, commitTimeout)
	defer cancel()
	start := time.Now()
	resp, err := req.RequestWith(ctx, m.cl)
	if m.ctx.Err() != nil {
		return // killed meanwhile
	}
	m.committed(offsets, resp, err, time.Since(start))
}

func (m *member) committed(offsets map[int32]int64, resp *kmsg.OffsetCommitResponse, err error, took time.Duration) {
	if err != nil {
		m.run.commitDone("NO_ANSWER", took)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				m.run.commitDone(codeName(p.ErrorCode), took)
				continue
			}
			m.run.commitDone("", took)
			if m.pending[p.Partition] == offsets[p.Partition] {
				delete(m.pending, p.Partition)
			}
		}
	}
}

func codeName(code int16) string {
	var e *kerr.Error
	if errors.As(kerr.ErrorForCode(code), &e) {
		return e.Message
	}
	return fmt.Sprint(code)
}

func (m *member) assigned(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.killed {
		m.run.assigned(parts[m.run.topic], m.id)
	}
}

// revoked commits what is done while the partitions are still ours, then lets
// them go.
func (m *member) revoked(ctx context.Context, _ *kgo.Client, parts map[string][]int32) {
	m.commitMu.Lock()
	defer m.commitMu.Unlock()
	m.run.released(parts[m.run.topic], m.id) // processing stops here, not when the commit is through
	m.commit(ctx)
	m.forget(parts[m.run.topic])
}

// lost partitions may have a new owner already: no commit.
func (m *member) lost(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
	m.commitMu.Lock()
	defer m.commitMu.Unlock()
	m.run.released(parts[m.run.topic], m.id)
	m.forget(parts[m.run.topic])
}

func (m *member) forget(parts []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range parts {
		delete(m.pending, p)
	}
}

// leave stops reading, commits and leaves the group as a clean shutdown does.
func (m *member) leave() {
	m.closed.Do(func() {
		m.polling()
		m.reader.Wait()
		m.cl.CloseAllowingRebalance()
		m.stop()
		m.loops.Wait()
	})
}

// kill is what kill -9 does, seen from the cluster: the connections close and
// nothing is said.
func (m *member) kill() {
	m.mu.Lock()
	m.killed = true
	m.mu.Unlock()
	m.cable.cut()
	m.run.died(m.id)
	m.polling()
	m.stop()
}

// bury frees what a killed member still holds in this process.
func (m *member) bury() {
	m.closed.Do(func() {
		m.cl.CloseAllowingRebalance()
		m.reader.Wait()
		m.loops.Wait()
	})
}
