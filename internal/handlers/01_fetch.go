package handlers

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/apis"
	"github.com/tidemark-io/tidemark/internal/fetchsession"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/replica"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/wire"
)

// Fetch (1), versions 4 to 18.
//
// Version notes: v7 sessions (KIP-227); v9 leader epochs; v11 rack; v12 last
// fetched epoch and divergence; v13 topic ids; v15 the replica id moves to a
// tagged field; v16 leader hints (KIP-951). Records go out as file ranges; this
// is the only response that is not built by kmsg.

// fetchCall is one Fetch request on its way.
type fetchCall struct {
	b       *Broker
	r       *network.Request
	session *fetchsession.Context
}

// decodeFetch closes the connection of a request that cannot be decoded: Fetch has
// no form for "not this version".
func decodeFetch(l apis.Listener, r *network.Request) (*kmsg.FetchRequest, bool) {
	if !serves(l, r.Header.Key, r.Header.Version) {
		r.Close(fmt.Errorf("%w: Fetch version %d", wire.ErrUnsupportedVersion, r.Header.Version))
		return nil, false
	}
	decoded, err := wire.DecodeRequest(r.Header, r.Body)
	if err != nil {
		r.Close(err)
		return nil, false
	}
	return decoded.(*kmsg.FetchRequest), true
}

func (b *Broker) fetch(_ context.Context, r *network.Request) {
	req, ok := decodeFetch(apis.Broker, r)
	if !ok {
		return
	}
	im := b.d.Image()
	replicaID, replicaEpoch := req.ReplicaID, int64(-1)
	if r.Header.Version >= 15 {
		replicaID, replicaEpoch = req.ReplicaState.ID, req.ReplicaState.Epoch
	}
	session, c := b.beginFetch(im, r.Header.Version, req, replicaID >= 0)
	if c != kerrors.None {
		respondFetch(r, &wire.FetchResponse{ErrorCode: int16(c)})
		return
	}
	call := &fetchCall{b: b, r: r, session: session}
	in := replica.FetchInput{
		ReplicaID: replicaID, ReplicaEpoch: replicaEpoch, MaxWaitMs: req.MaxWaitMillis,
		MinBytes: req.MinBytes, MaxBytes: req.MaxBytes, Version: r.Header.Version,
		ReadCommitted: req.IsolationLevel == 1, RackID: req.Rack,
	}
	if replicaID < 0 {
		in.MaxBytes = min(in.MaxBytes, int32(b.d.Config.Network.FetchMaxBytes))
	}
	in.MinBytes = min(in.MinBytes, in.MaxBytes)
	for _, p := range session.Partitions() {
		in.Partitions = append(in.Partitions, fetchPartition(im, p))
	}
	b.d.Replicas.Fetch(&in, call.answer)
}

// beginFetch enters the request's session. Topic names are looked up by id from
// version 13 on; an id that is unknown now may be known to a later request of
// the same session.
func (b *Broker) beginFetch(im *image.Image, version int16, req *kmsg.FetchRequest, follower bool) (*fetchsession.Context, kerrors.Code) {
	name := func(id types.UUID) (string, bool) {
		if t, ok := im.Topics.ByID(id); ok {
			return t.Name, true
		}
		return "", false
	}
	in := fetchsession.Request{
		NowMs: b.d.NowMs(), Version: version, SessionID: req.SessionID, Epoch: req.SessionEpoch,
		Follower: follower, TopicName: name,
	}
	if version < 7 { // no sessions yet
		in.SessionID, in.Epoch = 0, -1
	}
	partition := func(topic string, id types.UUID, p int32) types.TopicIDPartition {
		if version >= 13 {
			topic, _ = name(id)
			return types.TopicIDPartition{TopicID: id, Topic: topic, Partition: p}
		}
		return types.TopicIDPartition{Topic: topic, Partition: p}
	}
	var at map[types.TopicIDPartition]int // most requests name one partition, or none
	if len(req.Topics) > 1 || len(req.Topics) == 1 && len(req.Topics[0].Partitions) > 1 {
		at = map[types.TopicIDPartition]int{}
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			want := fetchsession.Partition{
				TP:                 partition(t.Topic, t.TopicID, p.Partition),
				CurrentLeaderEpoch: max(p.CurrentLeaderEpoch, -1), // any negative epoch is none (FetchRequest.optionalEpoch)
				FetchOffset:        p.FetchOffset,
				LastFetchedEpoch:   max(p.LastFetchedEpoch, -1),
				LogStartOffset:     p.LogStartOffset,
				MaxBytes:           p.PartitionMaxBytes,
			}
			if i, twice := at[want.TP]; twice {
				in.Partitions[i] = want // the last one counts, in the place of the first
				continue
			}
			if at != nil {
				at[want.TP] = len(in.Partitions)
			}
			in.Partitions = append(in.Partitions, want)
		}
	}
	for _, t := range req.ForgottenTopics {
		for _, p := range t.Partitions {
			in.Forgotten = append(in.Forgotten, partition(t.Topic, t.TopicID, p))
		}
	}
	b.sessionsMu.Lock()
	defer b.sessionsMu.Unlock()
	return b.d.Sessions.Begin(in)
}

func fetchPartition(im *image.Image, p fetchsession.Partition) replica.FetchPartition {
	out := replica.FetchPartition{
		TP: p.TP, CurrentLeaderEpoch: p.CurrentLeaderEpoch, FetchOffset: p.FetchOffset,
		LastFetchedEpoch: p.LastFetchedEpoch, LogStartOffset: p.LogStartOffset, MaxBytes: p.MaxBytes,
	}
	if p.TP.Topic == "" && !p.TP.TopicID.IsZero() {
		out.Code = kerrors.UnknownTopicID
	} else if t, ok := im.Topics.ByName(p.TP.Topic); !ok || int(p.TP.Partition) >= len(t.Partitions) || p.TP.Partition < 0 {
		out.Code = kerrors.UnknownTopicOrPartition
	}
	return out
}

// answer is called when the data is there, the wait is over, or there is
// something to say at once.
func (c *fetchCall) answer(results []replica.FetchResult) {
	answers := make([]fetchsession.Answer, len(results))
	for i := range results {
		res := &results[i]
		answers[i] = fetchsession.Answer{
			TP: res.TP, Code: res.Code(), RecordsBytes: res.Records.SizeBytes(), HighWatermark: res.HighWatermark,
			LogStartOffset: res.LogStartOffset, PreferredReplica: res.PreferredReadReplica, Diverging: res.DivergingEpoch != nil,
		}
	}
	c.b.sessionsMu.Lock()
	id, listed, sessionCode := c.session.Filter(c.b.d.NowMs(), answers)
	c.b.sessionsMu.Unlock()
	resp := &wire.FetchResponse{SessionID: id, ErrorCode: int16(sessionCode)}
	hints, unknown := false, []*replica.FetchResult(nil)
	for i := range results {
		if sessionCode != kerrors.None || !listed[i] {
			results[i].Records.Release()
			continue
		}
		hints = hints || results[i].CurrentLeader != nil
		if n := answers[i].RecordsBytes; n > 0 {
			c.b.d.Topics.Topic(results[i].TP.Topic).Fetched(n)
		}
		if unknownTopic(&results[i]) {
			unknown = append(unknown, &results[i])
			continue
		}
		c.add(resp, &results[i])
	}
	for _, res := range unknown { // they come last (KafkaApis.handleFetchRequest)
		res.AbortedTransactions = []wire.AbortedTransaction{} // empty, where other errors have null
		c.add(resp, res)
	}
	if hints && c.r.Header.Version >= 16 {
		c.addEndpoints(resp)
	}
	respondFetch(c.r, resp)
}

func unknownTopic(res *replica.FetchResult) bool {
	c := kerrors.Code(res.ErrorCode)
	return c == kerrors.UnknownTopicOrPartition || c == kerrors.UnknownTopicID
}

// add appends a partition, under the topic before it when that is the same.
func (c *fetchCall) add(resp *wire.FetchResponse, res *replica.FetchResult) {
	n := len(resp.Topics)
	byID := c.r.Header.Version >= 13 // else an answer may or may not have an id
	if n == 0 || resp.Topics[n-1].Topic != res.TP.Topic || byID && resp.Topics[n-1].TopicID != res.TP.TopicID {
		resp.Topics = append(resp.Topics, wire.FetchTopic{Topic: res.TP.Topic, TopicID: res.TP.TopicID})
		n++
	}
	resp.Topics[n-1].Partitions = append(resp.Topics[n-1].Partitions, res.FetchPartition)
}

func (c *fetchCall) addEndpoints(resp *wire.FetchResponse) {
	im, seen := c.b.d.Image(), map[int32]bool{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.CurrentLeader == nil || seen[p.CurrentLeader.LeaderID] {
				continue
			}
			seen[p.CurrentLeader.LeaderID] = true
			if n, ok := aliveEndpoint(im, p.CurrentLeader.LeaderID, c.r.Conn.Listener()); ok {
				resp.NodeEndpoints = append(resp.NodeEndpoints, wire.NodeEndpoint{NodeID: n.ID, Host: n.Host, Port: n.Port, Rack: n.Rack})
			}
		}
	}
}
