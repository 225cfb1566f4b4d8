package partition

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// model checks a core against the rules of the package doc while random inputs
// arrive: fetches, appends, fsyncs, elections, answers of the controller.
type model struct {
	c       *Core
	cfg     Config
	now     int64
	log     LogEnds
	pe, le  int32
	isr     []int32
	ends    map[int32]int64 // what each follower has, as it reported
	brokers map[int32]Broker
	pending []AlterPartition
	lastHW  int64
}

func newModel(t *rapid.T) *model {
	m := &model{isr: []int32{1, 2, 3}, ends: map[int32]int64{}, now: 100_000, brokers: map[int32]Broker{}}
	for id := int32(1); id <= 3; id++ {
		m.brokers[id] = Broker{Known: true, Epoch: int64(id)}
	}
	m.cfg = Config{
		NodeID: 1, LagTimeMaxMs: 100, MinISR: rapid.IntRange(1, 3).Draw(t, "minISR"), Strict: rapid.Bool().Draw(t, "strict"),
		Brokers: func(id int32) Broker { return m.brokers[id] },
	}
	m.c = New(m.cfg, 0)
	m.lead()
	return m
}

func (m *model) lead() {
	m.take(m.c.BecomeLeader(m.now, State{
		Leader: 1, LeaderEpoch: m.le, PartitionEpoch: m.pe, Replicas: []int32{1, 2, 3}, ISR: m.isr,
	}, m.log))
}

func (m *model) take(fx Effects) {
	if fx.Alter != nil && !fx.Retry {
		m.pending = append(m.pending, *fx.Alter)
	}
}

// TestPropertyHighWatermark: the high watermark never goes back while leading,
// never passes the leader's own contribution or that of any member of the
// maximal ISR after it moved, and never moves below min ISR.
func TestPropertyHighWatermark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				m.log.End += rapid.Int64Range(1, 5).Draw(t, "n")
				m.take(m.c.LocalAppended(m.now, m.log.End))
			},
			"durable": func(t *rapid.T) {
				m.log.Durable = rapid.Int64Range(m.log.Durable, m.log.End).Draw(t, "to")
				m.take(m.c.LocalDurable(m.now, m.log.Durable))
			},
			"fetch": func(t *rapid.T) {
				id := int32(rapid.IntRange(2, 3).Draw(t, "id"))
				m.ends[id] = rapid.Int64Range(m.ends[id], m.log.End).Draw(t, "at")
				fx, code := m.c.ReplicaFetched(m.now, ReplicaFetch{
					ReplicaID: id, BrokerEpoch: int64(id), FetchOffset: m.ends[id], Durable: UnknownOffset, LeaderEnd: m.log.End,
				})
				if code != kerrors.None {
					t.Fatal(code)
				}
				m.take(fx)
			},
			"time": func(t *rapid.T) {
				m.now += rapid.Int64Range(1, 150).Draw(t, "ms")
				m.take(m.c.Tick(m.now))
			},
			"controller": m.controller,
			"election": func(t *rapid.T) {
				m.le++
				m.pe++
				m.pending = nil
				m.lead()
			},
			"": m.check,
		})
	})
}

// controller answers the oldest proposal.
func (m *model) controller(t *rapid.T) {
	if len(m.pending) == 0 {
		t.Skip("nothing is proposed")
	}
	a := m.pending[0]
	m.pending = m.pending[1:]
	res := AlterResult{Token: a.Token, LeaderEpoch: m.le, PartitionEpoch: m.pe}
	if rapid.Bool().Draw(t, "refuse") {
		res.Code = kerrors.IneligibleReplica
	} else {
		m.pe++
		m.isr = nil
		for _, member := range a.ISR {
			m.isr = append(m.isr, member.ID)
		}
		res.PartitionEpoch, res.ISR = m.pe, m.isr
	}
	m.take(m.c.AlterPartitionResult(m.now, res))
}

func (m *model) check(t *rapid.T) {
	hw := m.c.HighWatermark()
	if hw < m.lastHW {
		t.Fatalf("high watermark went from %d to %d", m.lastHW, hw)
	}
	if hw > m.lastHW {
		if len(m.c.ISR()) < m.c.EffectiveMinISR() {
			t.Fatalf("high watermark moved with ISR %v below min ISR %d", m.c.ISR(), m.cfg.MinISR)
		}
		own := m.log.End
		if m.cfg.Strict {
			own = m.log.Durable
		}
		if hw > own {
			t.Fatalf("high watermark %d passes the leader's own %d", hw, own)
		}
		for _, id := range m.c.MaximalISR() {
			if id != 1 && hw > m.ends[id] {
				t.Fatalf("high watermark %d passes replica %d at %d", hw, id, m.ends[id])
			}
		}
	}
	if !slices.Contains(m.c.ISR(), 1) {
		t.Fatalf("the leader is not in the ISR %v", m.c.ISR())
	}
	for _, id := range m.c.ISR() {
		if !slices.Contains(m.c.MaximalISR(), id) {
			t.Fatalf("maximal ISR %v lacks %d of ISR %v", m.c.MaximalISR(), id, m.c.ISR())
		}
	}
	if len(m.pending) > 1 {
		t.Fatalf("%d proposals in flight", len(m.pending))
	}
	m.lastHW = hw
}
