package handlers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/replica"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/wire"
)

// Produce (0), versions 3 to 13; 0 to 2 are advertised but refused, which old
// librdkafka needs (KAFKA-18659).
//
// Version notes: v7 zstd; v8 record errors (KIP-467); v10 current leader and
// endpoints (KIP-951); v13 topic ids (KIP-516).
//
// acks=0 is never answered: an error closes the connection, which is the only
// sign a client can get (KafkaApis.handleProduceRequest).

// produceCall is one Produce request on its way. Calls are pooled: a produced
// byte costs no allocation, a request few.
type produceCall struct {
	b      *Broker
	r      *network.Request
	acks   int16
	topics []wire.ProduceTopic
	req    wire.ProduceRequest
	in     replica.ProduceInput
	sizes  []appendSize
	resp   kmsg.ProduceResponse
	done   func([]replica.ProduceResult) // finish, bound once
	// users are the caller of Replicas.Produce and its answer: the last one gives
	// the call back, since the answer may come before Produce has returned.
	users atomic.Int32
	// refused holds the results of partitions that never reach the replicas;
	// order says for each partition of the request where its result is.
	refused []replica.ProduceResult
	order   []resultRef
}

// resultRef points into refused, or into the replica manager's results.
type resultRef struct {
	refused bool
	index   int
}

func (b *Broker) produce(_ context.Context, r *network.Request) {
	call := b.produceCall(r)
	req, in := &call.req, &call.in
	if err := wire.DecodeProduce(r.Header.Version, r.Body, req); err != nil {
		call.users.Store(1)
		call.drop()
		r.Close(err)
		return
	}
	call.acks, call.topics = req.Acks, req.Topics
	in.Acks, in.TimeoutMs, in.Version, in.ClientID = req.Acks, req.TimeoutMs, r.Header.Version, r.Header.ClientID
	im, unauthorized := b.d.Image(), req.TransactionID == nil && hasTransactional(req)
	for i := range req.Topics {
		t := &req.Topics[i]
		topic, err := resolveTopic(im, r.Header.Version >= 13, t.Topic, t.TopicID)
		for _, p := range t.Partitions {
			tp := types.TopicIDPartition{Topic: t.Topic, TopicID: t.TopicID, Partition: p.Partition}
			if unauthorized {
				err = kerrors.TransactionalIDAuthorizationFailed
			}
			if err == nil && req.TransactionID != nil {
				err = kerrors.New(kerrors.InvalidTxnState, "this release does not serve transactions (transaction.version is 0)")
			}
			if err != nil {
				call.order = append(call.order, resultRef{refused: true, index: len(call.refused)})
				call.refused = append(call.refused, replica.ProduceResult{TP: tp, Err: err, BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1})
				continue
			}
			tp.Topic, tp.TopicID = topic.Name, topic.ID
			call.order = append(call.order, resultRef{index: len(in.Partitions)})
			in.Partitions = append(in.Partitions, replica.ProducePartition{TP: tp, Records: p.Records})
		}
	}
	call.sizes = appendSizes(call.sizes[:0], in.Partitions)
	b.d.Replicas.Produce(in, call.done)
	call.drop()
}

func (b *Broker) produceCall(r *network.Request) *produceCall {
	c, ok := b.produces.Get().(*produceCall)
	if !ok {
		c = &produceCall{b: b}
		c.done = c.finish
	}
	c.r = r
	c.users.Store(2)
	return c
}

// finish answers and counts; it is what Replicas.Produce calls.
func (c *produceCall) finish(results []replica.ProduceResult) {
	c.b.countProduce(results, c.sizes)
	c.answer(results)
	c.drop()
}

// drop gives the call back to the pool when nobody uses it any more, without
// its references into the frame and the results.
func (c *produceCall) drop() {
	if c.users.Add(-1) > 0 {
		return
	}
	for i := range c.req.Topics {
		clear(c.req.Topics[i].Partitions)
	}
	clear(c.in.Partitions)
	clear(c.refused)
	clear(c.resp.Topics)
	c.r, c.topics = nil, nil
	c.in.Partitions, c.refused, c.order = c.in.Partitions[:0], c.refused[:0], c.order[:0]
	c.resp.Topics, c.resp.Brokers = c.resp.Topics[:0], nil
	c.b.produces.Put(c)
}

// hasTransactional finds batches of a transaction. In a request without a
// transactional id they refuse all of it (KafkaApis.handleProduceRequest).
func hasTransactional(req *wire.ProduceRequest) bool {
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			if bt, err := record.Parse(p.Records); err == nil && bt.IsTransactional() {
				return true
			}
		}
	}
	return false
}

// appendSize is what a partition's batch adds to its topic's counters.
type appendSize struct{ records, sizeBytes int }

// appendSizes reads the sizes before the append, which may hand the bytes back.
func appendSizes(out []appendSize, parts []replica.ProducePartition) []appendSize {
	for _, p := range parts {
		var size appendSize
		if bt, err := record.Parse(p.Records); err == nil {
			size = appendSize{records: int(bt.Count()), sizeBytes: len(p.Records)}
		}
		out = append(out, size)
	}
	return out
}

func (b *Broker) countProduce(results []replica.ProduceResult, sizes []appendSize) {
	for i := range results {
		topic := b.d.Topics.Topic(results[i].TP.Topic)
		if results[i].Err != nil {
			topic.Refused()
		} else {
			topic.Appended(sizes[i].records, sizes[i].sizeBytes)
		}
	}
}

// resolveTopic finds a topic by name or, where the version has ids, by id.
func resolveTopic(im *image.Image, byID bool, name string, id types.UUID) (*image.Topic, error) {
	if byID {
		if t, ok := im.Topics.ByID(id); ok {
			return t, nil
		}
		return nil, kerrors.UnknownTopicID
	}
	if t, ok := im.Topics.ByName(name); ok {
		return t, nil
	}
	return nil, kerrors.UnknownTopicOrPartition
}

// answer responds when every partition's outcome is known.
func (c *produceCall) answer(results []replica.ProduceResult) {
	if c.acks == 0 {
		for _, ref := range c.order {
			if err := c.result(ref, results).Err; err != nil {
				c.r.Close(fmt.Errorf("produce with acks=0 failed: %w", err))
				return
			}
		}
		c.r.NoResponse()
		return
	}
	resp := &c.resp
	topics, n, hints := byTopic[kmsg.ProduceResponseTopic]{}, 0, false
	for i := range c.topics {
		t := &c.topics[i]
		if len(t.Partitions) == 0 {
			continue
		}
		key := ""
		if len(c.topics) > 1 { // else there is nothing to tell apart
			key = t.Topic + string(t.TopicID[:])
		}
		out := topics.at(&resp.Topics, key)
		out.Topic, out.TopicID = t.Topic, t.TopicID
		first := len(out.Partitions)
		out.Partitions = append(out.Partitions, make([]kmsg.ProduceResponseTopicPartition, len(t.Partitions))...)
		for j := range t.Partitions {
			res := c.result(c.order[n], results)
			fillProduce(&out.Partitions[first+j], res)
			hints = hints || res.CurrentLeader != nil
			n++
		}
	}
	if hints && c.r.Header.Version >= 10 {
		c.fillEndpoints(resp)
	}
	c.r.Respond(resp)
}

func (c *produceCall) result(ref resultRef, results []replica.ProduceResult) *replica.ProduceResult {
	if ref.refused {
		return &c.refused[ref.index]
	}
	return &results[ref.index]
}

func fillProduce(out *kmsg.ProduceResponseTopicPartition, res *replica.ProduceResult) {
	*out = kmsg.NewProduceResponseTopicPartition()
	out.Partition = res.TP.Partition
	out.BaseOffset, out.LogAppendTime, out.LogStartOffset = res.BaseOffset, res.LogAppendTimeMs, res.LogStartOffset
	if res.Err == nil {
		return
	}
	out.ErrorCode = code(res.Err)
	var e *kerrors.Error
	if errors.As(res.Err, &e) && e.Message != "" {
		out.ErrorMessage = &e.Message
	}
	for _, re := range res.RecordErrors {
		rec := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		rec.RelativeOffset = re.BatchIndex
		rec.ErrorMessage = ptr(re.Message)
		out.ErrorRecords = append(out.ErrorRecords, rec)
	}
	if res.CurrentLeader != nil {
		out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = res.CurrentLeader.LeaderID, res.CurrentLeader.LeaderEpoch
	}
}

// fillEndpoints says where the leaders listen that the answer names (KIP-951).
func (c *produceCall) fillEndpoints(resp *kmsg.ProduceResponse) {
	im, seen := c.b.d.Image(), map[int32]bool{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			id := p.CurrentLeader.LeaderID
			if id < 0 || seen[id] {
				continue
			}
			seen[id] = true
			if node, ok := aliveEndpoint(im, id, c.r.Conn.Listener()); ok {
				br := kmsg.NewProduceResponseBroker()
				br.NodeID, br.Host, br.Port, br.Rack = id, node.Host, node.Port, node.Rack
				resp.Brokers = append(resp.Brokers, br)
			}
		}
	}
}
