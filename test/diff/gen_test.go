package diff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/apis"
)

// Times of batches lie around an hour before the test began, so that a broker's
// own clock can be told from them, and retention leaves them alone.
const maxSpreadMs = 20 * 60_000

var baseMs = time.Now().Add(-time.Hour).UnixMilli()

// step is one request of a sequence. build makes it for a side; everything random
// in it was chosen before.
type step struct {
	what  string
	build func(s *side) kmsg.Request
}

// gen makes steps from a seed.
type gen struct {
	rng  *rand.Rand
	seqs map[string]int32 // next sequence number by producer, epoch and partition
	pids int              // producer ids asked for so far
}

func newGen(seed uint64) *gen {
	return &gen{rng: rand.New(rand.NewPCG(seed, 3)), seqs: map[string]int32{}}
}

// makers are the kinds of steps; each has an equal chance, so what matters most
// is listed more than once.
var makers = []func(*gen) step{
	(*gen).produce, (*gen).produce, (*gen).produce, (*gen).produce, (*gen).produce,
	(*gen).fetch, (*gen).fetch, (*gen).fetch, (*gen).fetch,
	(*gen).listOffsets, (*gen).listOffsets, (*gen).metadata, (*gen).metadata,
	(*gen).createTopics, (*gen).createTopics, (*gen).createTopics, (*gen).deleteTopics, (*gen).createPartitions,
	(*gen).incrementalAlterConfigs, (*gen).incrementalAlterConfigs, (*gen).alterConfigs,
	(*gen).describeConfigs, (*gen).describeConfigs, (*gen).listConfigResources,
	(*gen).deleteRecords, (*gen).offsetForLeaderEpoch, (*gen).offsetCommit, (*gen).offsetFetch,
	(*gen).offsetDelete, (*gen).findCoordinator, (*gen).initProducerID, (*gen).electLeaders,
	(*gen).listReassignments, (*gen).describeLogDirs, (*gen).describeProducers, (*gen).describeTopicPartitions,
	(*gen).describeCluster, (*gen).describeQuorum, (*gen).updateFeatures, (*gen).groups,
}

// sequence makes a whole sequence: some topics to begin with, then n steps.
func sequence(seed uint64, n int) []step {
	g := newGen(seed)
	steps := []step{g.firstTopics(), g.initProducerIDPlain(), g.initProducerIDPlain()}
	for range n {
		st := makers[g.rng.IntN(len(makers))](g)
		if g.one(4) {
			st = mutated(st, g.rng.Uint64(), 1+g.rng.IntN(2))
		}
		steps = append(steps, st)
	}
	return steps
}

// one is true once in n times.
func (g *gen) one(n int) bool { return g.rng.IntN(n) == 0 }

func pick[T any](g *gen, of ...T) T { return of[g.rng.IntN(len(of))] }

// version picks one of the versions that both brokers serve; the newest often.
func (g *gen) version(key kmsg.Key) int16 {
	a, ok := apis.ByKey(key.Int16())
	if !ok {
		panic(fmt.Sprintf("no API %d", key))
	}
	if g.one(3) {
		return a.Max
	}
	return a.Min + int16(g.rng.IntN(int(a.Max-a.Min)+1))
}

// topic picks a topic of the run, now and then one that does not exist or
// cannot.
func (g *gen) topic() string {
	if g.one(12) {
		return pick(g, "never", "=", "=..", "=bad name", "=__cluster_metadata")
	}
	return pick(g, "a", "a", "a", "b", "b", "c", "d.x")
}

func (g *gen) partition() int32 {
	if g.one(15) {
		return pick(g, int32(-1), 7, math.MaxInt32)
	}
	return int32(pick(g, 0, 0, 0, 0, 1, 2))
}

func (g *gen) step(key kmsg.Key, version int16, build func(s *side) kmsg.Request) step {
	return step{
		what: fmt.Sprintf("%s v%d", kmsg.NameForKey(key.Int16()), version),
		build: func(s *side) kmsg.Request {
			r := build(s)
			r.SetVersion(version)
			return r
		},
	}
}

func ptr[T any](v T) *T { return &v }
