package diff

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/record"
)

// damage is something done to a batch before it is sent.
type damage struct {
	name string
	do   func(b []byte) []byte
	// alone: the batch goes in a request of its own (see intended).
	alone bool
}

func patch(name string, resum bool, do func(b []byte)) damage {
	return damage{name: name, do: func(b []byte) []byte {
		do(b)
		if resum {
			binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
		}
		return b
	}}
}

// damages that both brokers must answer alike; the intended differences of
// docs/formats/record-batch.md are left out.
var damages = []damage{
	patch("crc", false, func(b []byte) { b[17] ^= 1 }),
	patch("last byte", false, func(b []byte) { b[len(b)-1] ^= 1 }),
	patch("magic 1", false, func(b []byte) { b[16] = 1 }),
	patch("magic 0", false, func(b []byte) { b[16] = 0 }),
	{name: "magic 3", do: func(b []byte) []byte { b[16] = 3; return b }, alone: true},
	{name: "magic -1", do: func(b []byte) []byte { b[16] = 0xff; return b }, alone: true},
	patch("base offset 5", false, func(b []byte) { b[7] = 5 }),
	patch("base offset -1", false, func(b []byte) { binary.BigEndian.PutUint64(b, math.MaxUint64) }),
	patch("leader epoch 9", false, func(b []byte) { b[15] = 9 }),
	patch("count 0", true, func(b []byte) { binary.BigEndian.PutUint32(b[57:], 0) }),
	patch("count +1", true, func(b []byte) { b[60]++ }),
	patch("count -1", true, func(b []byte) { binary.BigEndian.PutUint32(b[57:], math.MaxUint32) }),
	patch("delta +1", true, func(b []byte) { b[26]++ }),
	patch("delta -1", true, func(b []byte) { binary.BigEndian.PutUint32(b[23:], math.MaxUint32) }),
	patch("delta and count +1", true, func(b []byte) { b[26]++; b[60]++ }),
	patch("control", true, func(b []byte) { b[22] |= 0x20 }),
	patch("transactional", true, func(b []byte) { b[22] |= 0x10 }),
	patch("control transactional", true, func(b []byte) { b[22] |= 0x30 }),
	patch("unknown attribute", true, func(b []byte) { b[22] |= 0x80 }),
	patch("high attribute", true, func(b []byte) { b[21] |= 0x40 }),
	patch("pid without sequence", true, func(b []byte) {
		binary.BigEndian.PutUint64(b[43:], 5)
		binary.BigEndian.PutUint16(b[51:], 0)
		binary.BigEndian.PutUint32(b[53:], math.MaxUint32)
	}),
	patch("pid without epoch", true, func(b []byte) {
		binary.BigEndian.PutUint64(b[43:], 500000)
		binary.BigEndian.PutUint16(b[51:], math.MaxUint16)
		binary.BigEndian.PutUint32(b[53:], 0)
	}),
	patch("sequence without pid", true, func(b []byte) { binary.BigEndian.PutUint32(b[53:], 7) }),
	patch("max timestamp wrong", true, func(b []byte) { binary.BigEndian.PutUint64(b[35:], uint64(baseMs)) }),
	patch("max timestamp -1", true, func(b []byte) { binary.BigEndian.PutUint64(b[35:], math.MaxUint64) }),
	{name: "two batches", do: func(b []byte) []byte { return append(b, b...) }},
	{name: "short tail", do: func(b []byte) []byte { return append(b, 1, 2, 3) }},
	{name: "long tail", do: func(b []byte) []byte { return append(b, make([]byte, 70)...) }},
	{name: "cut", do: func(b []byte) []byte { return b[:len(b)-1] }},
	{name: "cut header", do: func(b []byte) []byte { return b[:40] }},
	{name: "cut to 16", do: func(b []byte) []byte { return b[:16] }},
	{name: "cut to 17", do: func(b []byte) []byte { return b[:17] }},
	// Kafka never answers a partition without records (null), so there is no such damage.
	{name: "empty", do: func([]byte) []byte { return []byte{} }},
	{name: "length 10", do: func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 10); return b }, alone: true},
	{name: "length -1", do: func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], math.MaxUint32); return b }, alone: true},
	{name: "length +1", do: func(b []byte) []byte { b[11]++; return b }, alone: true},
}

// batchPlan is a batch whose producer id is filled in per side.
type batchPlan struct {
	opts   record.BuilderOptions
	pid    int // number of the producer; -1: none
	ts     []int64
	keys   bool
	values int
	damage *damage
}

func (p batchPlan) bytes(s *side) []byte {
	o := p.opts
	if p.pid >= 0 {
		o.HasProducer, o.ProducerID = true, s.pid(p.pid)
	}
	bld := record.NewBuilder(o)
	for i, ts := range p.ts {
		var key []byte
		if p.keys {
			key = fmt.Appendf(nil, "k%d", i)
		}
		var headers []record.Header
		if i == 1 {
			headers = []record.Header{{Key: "h", Value: []byte("v")}, {Key: "", Value: nil}}
		}
		bld.Append(ts, key, []byte(long(p.values)), headers...)
	}
	b, err := bld.Build()
	if err != nil {
		s.t.Fatal(err)
	}
	if p.damage != nil {
		return p.damage.do(b)
	}
	return b
}

func (g *gen) plan(topic string, partition int32) batchPlan {
	p := batchPlan{opts: record.BuilderOptions{LeaderEpoch: -1}, pid: -1, keys: !g.one(5), values: pick(g, 1, 3, 20, 100, 400)}
	if g.one(3) {
		p.opts.Codec = record.Codec(1 + g.rng.IntN(4))
	}
	base := baseMs + int64(g.rng.IntN(maxSpreadMs))
	for range 1 + g.rng.IntN(4) {
		ts := base + int64(g.rng.IntN(2000)) - 1000
		if g.one(60) {
			ts = pick(g, -1, 0, baseMs+10*86400_000)
		}
		p.ts = append(p.ts, ts)
	}
	if g.one(2) && g.pids > 0 {
		p.pid = g.rng.IntN(g.pids + 1)
		p.opts.ProducerEpoch = int16(pick(g, 0, 0, 0, 0, 0, 0, 1, 2, 32767))
		key := fmt.Sprintf("%s/%d/%d/%d", topic, partition, p.pid, p.opts.ProducerEpoch)
		p.opts.BaseSequence = g.seqs[key]
		switch {
		case g.one(6):
			p.opts.BaseSequence = max(0, p.opts.BaseSequence-int32(g.rng.IntN(8)))
		case g.one(10):
			p.opts.BaseSequence += int32(pick(g, 1, 5, 1000000))
		case g.one(20):
			p.opts.BaseSequence = math.MaxInt32 - 1
		default:
			g.seqs[key] += int32(len(p.ts))
		}
	}
	if g.one(4) {
		p.damage = &damages[g.rng.IntN(len(damages))]
	}
	return p
}

func (g *gen) produce() step {
	version := g.version(kmsg.Produce)
	acks := pick(g, int16(-1), -1, -1, -1, 1, 1, 2, -2)
	type part struct {
		topic string
		no    int32
		plan  batchPlan
	}
	var parts []part
	for range pick(g, 1, 1, 1, 2, 3) {
		t, p := g.topic(), g.partition()
		parts = append(parts, part{t, p, g.plan(t, p)})
		if d := parts[len(parts)-1].plan.damage; d != nil && d.alone {
			parts = parts[len(parts)-1:]
			break
		}
		if slices.ContainsFunc(parts[:len(parts)-1], func(o part) bool { return o.topic == t && o.no == p }) {
			parts = parts[:len(parts)-1] // of a partition that is named twice Kafka appends the last batch
		}
	}
	st := g.step(kmsg.Produce, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = acks, 5000
		for _, p := range parts {
			t := kmsg.NewProduceRequestTopic()
			t.Topic, t.TopicID = s.topic(p.topic), s.id(p.topic)
			pt := kmsg.NewProduceRequestTopicPartition()
			pt.Partition, pt.Records = p.no, p.plan.bytes(s)
			t.Partitions = append(t.Partitions, pt)
			req.Topics = append(req.Topics, t)
		}
		return req
	})
	for _, p := range parts {
		if p.plan.damage != nil {
			st.what += fmt.Sprintf(" (%s-%d: %s)", p.topic, p.no, p.plan.damage.name)
		}
	}
	return st
}

func (g *gen) fetch() step {
	version := g.version(kmsg.Fetch)
	maxBytes, iso, minBytes := pick(g, int32(1<<20), 1<<20, 1, 0, 200, 700, -1, math.MaxInt32), pick(g, int8(0), 0, 1), pick(g, int32(0), 1, 1)
	type part struct {
		topic           string
		no, epoch, last int32
		offset          int64
		max             int32
	}
	var parts []part
	for range pick(g, 1, 1, 2, 3) {
		parts = append(parts, part{
			g.topic(), g.partition(), pick(g, int32(-1), -1, -1, 0, 1, -2), pick(g, int32(-1), -1, -1, 0, 5, -3),
			int64(pick(g, 0, 0, 0, 1, 2, 3, 5, 9, 100, -1, math.MaxInt64)), pick(g, int32(1<<20), 1<<20, 100, 0, 1, -1, 500),
		})
	}
	session, epoch := -1, int32(-1)
	if version >= 7 && g.one(2) {
		session, epoch = pick(g, -1, 0, 1, 7), int32(pick(g, 0, 0, 1, 1, 2, 3, -1, -2, math.MaxInt32))
	}
	forget := session >= 0 && g.one(3)
	return g.step(kmsg.Fetch, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrFetchRequest()
		req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel, req.SessionEpoch = 1, minBytes, maxBytes, iso, epoch
		if session >= 0 {
			req.SessionID = s.sess[session]
		}
		if epoch > 0 && forget {
			f := kmsg.NewFetchRequestForgottenTopic()
			f.Topic, f.TopicID, f.Partitions = s.topic(parts[0].topic), s.id(parts[0].topic), []int32{parts[0].no}
			req.ForgottenTopics = append(req.ForgottenTopics, f)
			return req
		}
		for _, p := range parts {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = s.topic(p.topic), s.id(p.topic)
			fp := kmsg.NewFetchRequestTopicPartition()
			fp.Partition, fp.CurrentLeaderEpoch, fp.LastFetchedEpoch, fp.FetchOffset, fp.PartitionMaxBytes = p.no, p.epoch, p.last, p.offset, p.max
			t.Partitions = append(t.Partitions, fp)
			req.Topics = append(req.Topics, t)
		}
		return req
	})
}

func (g *gen) listOffsets() step {
	version := g.version(kmsg.ListOffsets)
	name, iso, replica := g.topic(), pick(g, int8(0), 0, 1), pick(g, int32(-1), -1, -1, -2, 1, 2)
	type part struct {
		no, epoch int32
		ts        int64
	}
	var parts []part
	for range pick(g, 1, 2, 3) {
		ts := pick(g, int64(-1), -2, -3, -4, -5, -6, -7, -100, 0, baseMs, baseMs+maxSpreadMs/2, baseMs+maxSpreadMs, math.MaxInt64)
		parts = append(parts, part{g.partition(), pick(g, int32(-1), -1, 0, 1, 5), ts})
	}
	return g.step(kmsg.ListOffsets, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID, req.IsolationLevel, req.TimeoutMillis = replica, iso, 5000
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = s.topic(name)
		for _, p := range parts {
			lp := kmsg.NewListOffsetsRequestTopicPartition()
			lp.Partition, lp.CurrentLeaderEpoch, lp.Timestamp = p.no, p.epoch, p.ts
			t.Partitions = append(t.Partitions, lp)
		}
		req.Topics = append(req.Topics, t)
		return req
	})
}

func (g *gen) metadata() step {
	version := g.version(kmsg.Metadata)
	names, shape, byID := []string{g.topic(), g.topic()}, g.rng.IntN(6), g.one(2)
	ops := g.one(2)
	return g.step(kmsg.Metadata, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrMetadataRequest()
		req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = ops, ops
		switch {
		case shape == 0: // null: all
		case shape == 1:
			req.Topics = []kmsg.MetadataRequestTopic{}
		default:
			for _, n := range names {
				t := kmsg.NewMetadataRequestTopic()
				t.Topic = ptr(s.topic(n))
				if version >= 10 && byID {
					t.TopicID = s.id(n)
					if shape != 2 {
						t.Topic = nil
					}
				}
				req.Topics = append(req.Topics, t)
			}
		}
		return req
	})
}

func (g *gen) deleteRecords() step {
	version := g.version(kmsg.DeleteRecords)
	name, part, offset := g.topic(), g.partition(), int64(pick(g, -1, 0, 1, 2, 4, 100, -2, math.MaxInt64))
	return g.step(kmsg.DeleteRecords, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.TimeoutMillis = 5000
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic = s.topic(name)
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = part, offset
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	})
}

func (g *gen) offsetForLeaderEpoch() step {
	version := g.version(kmsg.OffsetForLeaderEpoch)
	name, part, cur, epoch, replica := g.topic(), g.partition(), pick(g, int32(-1), -1, 0, 1, 7), pick(g, int32(0), 0, 1, -1, 9, -2), pick(g, int32(-1), -1, -2, 1, 3)
	return g.step(kmsg.OffsetForLeaderEpoch, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.ReplicaID = replica
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = s.topic(name)
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = part, cur, epoch
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	})
}

func (g *gen) initProducerIDPlain() step {
	g.pids++
	return g.step(kmsg.InitProducerID, 4, func(*side) kmsg.Request {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.ProducerID, req.ProducerEpoch = -1, -1
		return req
	})
}

func (g *gen) initProducerID() step {
	version := g.version(kmsg.InitProducerID)
	pid, epoch, timeout := pick(g, -1, -1, 0, 50), pick(g, int16(-1), -1, 0, 3), pick(g, int32(0), -1, 60000, math.MaxInt32)
	empty := g.one(6)
	if version < 3 || pid == -1 && epoch == -1 {
		if !empty {
			g.pids++
		}
	}
	return g.step(kmsg.InitProducerID, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.ProducerID, req.ProducerEpoch, req.TransactionTimeoutMillis = s.pid(pid), epoch, timeout
		if empty {
			req.TransactionalID = ptr("")
		}
		return req
	})
}

func (g *gen) describeLogDirs() step {
	version := g.version(kmsg.DescribeLogDirs)
	name, parts := pick(g, "a", "b", "c", "never"), []int32{g.partition(), g.partition()}
	return g.step(kmsg.DescribeLogDirs, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		t := kmsg.NewDescribeLogDirsRequestTopic()
		t.Topic, t.Partitions = s.topic(name), parts
		req.Topics = append(req.Topics, t)
		return req
	})
}

func (g *gen) describeProducers() step {
	name, parts := g.topic(), []int32{g.partition(), g.partition()}
	return g.step(kmsg.DescribeProducers, 0, func(s *side) kmsg.Request {
		req := kmsg.NewPtrDescribeProducersRequest()
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = s.topic(name), parts
		req.Topics = append(req.Topics, t)
		return req
	})
}

func (g *gen) describeTopicPartitions() step {
	names, limit, cursor := []string{g.topic(), g.topic()}, pick(g, int32(2000), 1, 2, 0, -1, 3), g.rng.IntN(5)
	curTopic, curPart := g.topic(), min(g.partition(), 7) // Kafka adds the limit to it and overflows
	return g.step(kmsg.DescribeTopicPartitions, 0, func(s *side) kmsg.Request {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = limit
		for _, n := range names {
			t := kmsg.NewDescribeTopicPartitionsRequestTopic()
			t.Topic = s.topic(n)
			req.Topics = append(req.Topics, t)
		}
		switch cursor {
		case 0:
			req.Cursor = s.cursor
		case 1:
			c := kmsg.NewDescribeTopicPartitionsRequestCursor()
			c.Topic, c.Partition = s.topic(curTopic), curPart
			req.Cursor = &c
		}
		return req
	})
}
