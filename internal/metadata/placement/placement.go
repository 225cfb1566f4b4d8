package placement

import (
	"cmp"
	"slices"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// Broker is one broker that may take replicas: registered, with a directory that
// is not cordoned, not in controlled shutdown. Rack nil means "no rack", which
// counts as a rack of its own.
type Broker struct {
	ID     int32
	Rack   *string
	Fenced bool
}

// Spec says what to place.
type Spec struct {
	Partitions        int
	ReplicationFactor int16
}

// Place returns the replicas of each partition, preferred leader first. seed
// picks where the stripes start. The error carries INVALID_REPLICATION_FACTOR and
// Kafka's words.
func Place(spec Spec, brokers []Broker, seed uint64) ([][]int32, error) {
	racks := newRackList(brokers, seed)
	switch {
	case spec.ReplicationFactor <= 0:
		return nil, kerrors.New(kerrors.InvalidReplicationFactor,
			"Invalid replication factor %d: the replication factor must be positive.", spec.ReplicationFactor)
	case racks.unfenced == 0:
		return nil, kerrors.New(kerrors.InvalidReplicationFactor,
			"All brokers are currently fenced, or have all their log directories cordoned.")
	case int(spec.ReplicationFactor) > racks.total:
		return nil, kerrors.New(kerrors.InvalidReplicationFactor,
			"The target replication factor of %d cannot be reached because only %d broker(s) are registered "+
				"or some brokers have all their log directories cordoned.", spec.ReplicationFactor, racks.total)
	}
	out := make([][]int32, 0, spec.Partitions)
	for range spec.Partitions {
		out = append(out, racks.place(int(spec.ReplicationFactor)))
	}
	return out, nil
}

// brokerList hands out its brokers in turn. A new epoch (one per partition)
// starts one broker further, which makes the stripes.
type brokerList struct {
	ids    []int32
	index  int // handed out in this epoch
	offset int // where this epoch started
	epoch  int
}

func (l *brokerList) start(r *random) {
	if len(l.ids) > 0 {
		slices.Sort(l.ids)
		l.offset = r.intn(len(l.ids))
	}
}

// next returns the next broker of this epoch, -1 when all were handed out.
func (l *brokerList) next(epoch int) int32 {
	if len(l.ids) == 0 {
		return -1
	}
	if l.epoch != epoch {
		l.epoch = epoch
		l.index = 0
		l.offset = (l.offset + 1) % len(l.ids)
	}
	if l.index >= len(l.ids) {
		return -1
	}
	id := l.ids[(l.index+l.offset)%len(l.ids)]
	l.index++
	return id
}

type rack struct {
	name             *string
	fenced, unfenced brokerList
}

// next prefers unfenced brokers; fenced ones come only when those are used up.
func (r *rack) next(epoch int) int32 {
	if id := r.unfenced.next(epoch); id >= 0 {
		return id
	}
	return r.fenced.next(epoch)
}

type rackList struct {
	racks           []*rack // by name, no rack first
	total, unfenced int
	offset          int // rack that the next partition starts at
	epoch           int // grows with every partition: each sees every broker once
	untilShuffle    int
	random          *random
}

func newRackList(brokers []Broker, seed uint64) *rackList {
	l := &rackList{random: &random{state: seed}}
	for _, b := range brokers {
		r := l.rack(b.Rack)
		l.total++
		if b.Fenced {
			r.fenced.ids = append(r.fenced.ids, b.ID)
		} else {
			r.unfenced.ids = append(r.unfenced.ids, b.ID)
			l.unfenced++
		}
	}
	slices.SortFunc(l.racks, func(a, b *rack) int { return compareRack(a.name, b.name) })
	for _, r := range l.racks {
		r.fenced.start(l.random)
		r.unfenced.start(l.random)
	}
	if len(l.racks) > 0 {
		l.offset = l.random.intn(len(l.racks))
	}
	l.untilShuffle = l.unfenced
	return l
}

func compareRack(a, b *string) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(*a, *b)
}

func (l *rackList) rack(name *string) *rack {
	for _, r := range l.racks {
		if compareRack(r.name, name) == 0 {
			return r
		}
	}
	r := &rack{name: name}
	l.racks = append(l.racks, r)
	return r
}

// place picks the replicas of one partition. Place has checked that enough
// brokers exist, so the loops end.
func (l *rackList) place(replicas int) []int32 {
	// Every unfenced broker has led once: shuffle, so that the same sets of
	// replicas do not come again and again.
	if l.untilShuffle == 0 && l.unfenced > 1 {
		l.shuffle()
		l.untilShuffle = l.unfenced
	}
	l.untilShuffle--
	if l.offset == len(l.racks) {
		l.offset = 0
	}
	leader, leaderRack := l.leader()
	out := make([]int32, 0, replicas)
	out = append(out, leader)
	at := l.offset
	for len(out) < replicas {
		if at == leaderRack {
			leaderRack = -1 // skipped once: the leader was its share of this round
		} else if id := l.racks[at].next(l.epoch); id >= 0 {
			out = append(out, id)
		}
		at = (at + 1) % len(l.racks)
	}
	l.epoch++
	l.offset++
	return out
}

// leader picks the first replica from the first rack that has an unfenced broker.
func (l *rackList) leader() (id int32, rackIndex int) {
	for i := l.offset; ; i = (i + 1) % len(l.racks) {
		if id := l.racks[i].unfenced.next(l.epoch); id >= 0 {
			return id, i
		}
	}
}

func (l *rackList) shuffle() {
	shuffle(l.random, l.racks)
	for _, r := range l.racks {
		shuffle(l.random, r.fenced.ids)
		shuffle(l.random, r.unfenced.ids)
	}
}

// random is SplitMix64: small, seeded, and the same on every machine. Cores may
// not use math/rand.
type random struct{ state uint64 }

func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// intn returns a number in [0, n). The bias for such small n does not matter.
func (r *random) intn(n int) int { return int(r.next() % uint64(n)) }

func shuffle[T any](r *random, s []T) {
	for i := len(s) - 1; i > 0; i-- {
		j := r.intn(i + 1)
		s[i], s[j] = s[j], s[i]
	}
}
