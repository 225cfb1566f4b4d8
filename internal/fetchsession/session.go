package fetchsession

import (
	"container/list"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// Partition is what a client asks of one partition.
type Partition struct {
	// TP has a topic id in sessions of v13 and up; Topic is then the name if it
	// is known. Below v13 the id is zero.
	TP                 types.TopicIDPartition
	CurrentLeaderEpoch int32 // -1: none
	FetchOffset        int64
	LastFetchedEpoch   int32 // -1: none
	LogStartOffset     int64 // of a follower
	MaxBytes           int32
}

// Answer is what matters of one partition's result for the session.
type Answer struct {
	TP               types.TopicIDPartition
	Code             kerrors.Code
	RecordsBytes     int
	HighWatermark    int64
	LogStartOffset   int64
	PreferredReplica int32 // -1: none
	Diverging        bool
}

// key identifies a partition inside a session: by id where ids are used (the
// name may be unknown at first), else by name.
type key struct {
	id        types.UUID
	topic     string
	partition int32
}

func keyOf(tp types.TopicIDPartition) key {
	if !tp.TopicID.IsZero() {
		return key{id: tp.TopicID, partition: tp.Partition}
	}
	return key{topic: tp.Topic, partition: tp.Partition}
}

// cached is one partition of a session and what the client last heard of it.
type cached struct {
	req           Partition
	highWatermark int64
	logStart      int64
	place         *list.Element // in session.order
}

// mustSend says whether the answer has news, and remembers it as told.
func (c *cached) mustSend(a *Answer) bool {
	send := a.RecordsBytes > 0 || a.PreferredReplica >= 0 || a.Diverging
	if c.highWatermark != a.HighWatermark {
		send = true
		c.highWatermark = a.HighWatermark
	}
	if c.logStart != a.LogStartOffset {
		send = true
		c.logStart = a.LogStartOffset
	}
	if a.Code != kerrors.None {
		send = true
		c.highWatermark = -1 // so that the partition is sent again once the error is gone
	}
	return send
}

type session struct {
	id           int32
	privileged   bool // of a follower
	usesTopicIDs bool
	epoch        int32 // that the next request must carry
	createdMs    int64
	lastUsedMs   int64
	size         int // partitions when it was last touched: its rank for eviction
	partitions   map[key]*cached
	order        *list.List // *cached; those that just sent data go to the end
}

func newSession(id int32, privileged, usesTopicIDs bool, nowMs int64) *session {
	return &session{
		id: id, privileged: privileged, usesTopicIDs: usesTopicIDs, epoch: nextEpoch(initialEpoch), createdMs: nowMs,
		lastUsedMs: nowMs, size: -1, partitions: map[key]*cached{}, order: list.New(),
	}
}

func (s *session) put(p Partition) *cached {
	k := keyOf(p.TP)
	if c, ok := s.partitions[k]; ok {
		if p.TP.Topic == "" {
			p.TP.Topic = c.req.TP.Topic
		}
		c.req = p
		return c
	}
	c := &cached{req: p, highWatermark: -1, logStart: -1}
	c.place = s.order.PushBack(c)
	s.partitions[k] = c
	return c
}

func (s *session) forget(tp types.TopicIDPartition) {
	if c, ok := s.partitions[keyOf(tp)]; ok {
		s.order.Remove(c.place)
		delete(s.partitions, keyOf(tp))
	}
}

// resolve fills in names that were unknown when the partition was added.
func (s *session) resolve(name func(types.UUID) (string, bool)) {
	if !s.usesTopicIDs || name == nil {
		return
	}
	for e := s.order.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*cached); c.req.TP.Topic == "" {
			c.req.TP.Topic, _ = name(c.req.TP.TopicID)
		}
	}
}

const (
	invalidID    int32 = 0
	initialEpoch int32 = 0
	finalEpoch   int32 = -1
)

// nextEpoch follows e; after 2^31-1 comes 1, since 0 opens a session.
func nextEpoch(e int32) int32 {
	switch {
	case e < 0:
		return finalEpoch
	case e == 1<<31-1:
		return 1
	}
	return e + 1
}
