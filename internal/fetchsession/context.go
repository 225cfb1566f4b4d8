package fetchsession

import (
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// topicIDVersion is the first Fetch version that names topics by id.
const topicIDVersion = 13

// Request is the session part of a Fetch request.
type Request struct {
	NowMs      int64
	Version    int16
	SessionID  int32
	Epoch      int32
	Follower   bool
	Partitions []Partition
	Forgotten  []types.TopicIDPartition
	// TopicName looks up names for ids that were unknown before; may be nil.
	TopicName func(types.UUID) (string, bool)
}

type kind int8

const (
	sessionless kind = iota
	full
	incremental
)

// Context is one request inside its session.
type Context struct {
	cache      *Cache
	kind       kind
	session    *session
	epoch      int32 // of the request
	partitions []Partition
	privileged bool
	useIDs     bool
}

// Begin finds out what a request means. An error code answers the whole
// request, with session id 0 and no partitions.
//
// (0,-1) and (id,-1) have no session afterwards; (any,0) opens one if there is
// room; (id,n) continues id if n is the epoch it expects.
func (c *Cache) Begin(r Request) (*Context, kerrors.Code) {
	x := &Context{cache: c, epoch: r.Epoch, partitions: r.Partitions, privileged: r.Follower, useIDs: r.Version >= topicIDVersion}
	if r.Epoch == initialEpoch || r.Epoch == finalEpoch {
		if s, ok := c.sessions[r.SessionID]; ok {
			c.remove(s)
		}
		if r.Epoch == initialEpoch {
			x.kind = full
		}
		return x, kerrors.None
	}
	s, ok := c.sessions[r.SessionID]
	switch {
	case !ok:
		return nil, kerrors.FetchSessionIDNotFound
	case s.epoch != r.Epoch:
		return nil, kerrors.InvalidFetchSessionEpoch
	case s.usesTopicIDs != x.useIDs:
		return nil, kerrors.FetchSessionTopicIDError
	}
	for _, p := range r.Partitions {
		s.put(p)
	}
	for _, tp := range r.Forgotten {
		s.forget(tp)
	}
	if len(s.partitions) == 0 {
		c.remove(s)
		return x, kerrors.None
	}
	s.epoch = nextEpoch(s.epoch)
	c.touch(s, r.NowMs)
	s.resolve(r.TopicName)
	x.kind, x.session = incremental, s
	x.partitions = make([]Partition, 0, len(s.partitions))
	for e := s.order.Front(); e != nil; e = e.Next() {
		x.partitions = append(x.partitions, e.Value.(*cached).req)
	}
	return x, kerrors.None
}

// Partitions returns what to fetch, in the order in which to fill the answer.
func (x *Context) Partitions() []Partition { return x.partitions }

// Filter decides what the answer says: its session id, and for each entry of
// answers whether the answer lists it. A code answers the whole request with
// nothing listed: another request used the session meanwhile. The nowMs of a
// new session is its creation.
func (x *Context) Filter(nowMs int64, answers []Answer) (sessionID int32, listed []bool, code kerrors.Code) {
	listed = make([]bool, len(answers))
	switch x.kind {
	case incremental:
		return x.filterIncremental(answers, listed)
	case full:
		sessionID = x.open(nowMs, answers)
	}
	for i := range listed {
		listed[i] = true
	}
	return sessionID, listed, kerrors.None
}

// Throttled returns the session id of an empty answer to a throttled request.
// The session has moved on: the client gets its data with the next request.
func (x *Context) Throttled() (sessionID int32, code kerrors.Code) {
	switch {
	case x.kind != incremental:
		return invalidID, kerrors.None
	case x.session.epoch != nextEpoch(x.epoch):
		return x.session.id, kerrors.InvalidFetchSessionEpoch
	}
	return x.session.id, kerrors.None
}

func (x *Context) filterIncremental(answers []Answer, listed []bool) (int32, []bool, kerrors.Code) {
	s := x.session
	if s.epoch != nextEpoch(x.epoch) {
		return s.id, listed, kerrors.InvalidFetchSessionEpoch
	}
	for i := range answers {
		c, ok := s.partitions[keyOf(answers[i].TP)]
		if !ok || !c.mustSend(&answers[i]) {
			continue
		}
		listed[i] = true
		if answers[i].RecordsBytes > 0 {
			s.order.MoveToBack(c.place) // the others get their turn before it
		}
	}
	return s.id, listed, kerrors.None
}

// open makes a session of a full request's partitions, or returns 0.
func (x *Context) open(nowMs int64, answers []Answer) int32 {
	s, ok := x.cache.create(nowMs, x.privileged, x.useIDs, len(answers))
	if !ok {
		return invalidID
	}
	asked := make(map[key]int, len(x.partitions))
	for i := range x.partitions {
		asked[keyOf(x.partitions[i].TP)] = i
	}
	for i := range answers {
		a := &answers[i]
		at, ok := asked[keyOf(a.TP)]
		if !ok {
			continue
		}
		c := s.put(x.partitions[at])
		c.highWatermark, c.logStart = a.HighWatermark, a.LogStartOffset
	}
	x.cache.touch(s, nowMs)
	return s.id
}
