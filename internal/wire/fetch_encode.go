package wire

import "encoding/binary"

// Versions of Fetch at which the response's layout changes.
const (
	fetchLogStart        int16 = 5
	fetchSessions        int16 = 7
	fetchPreferredRead   int16 = 11
	fetchFlexible        int16 = 12
	fetchTopicIDs        int16 = 13
	fetchNodeEndpoints   int16 = 16
	fetchDivergingTag          = 0
	fetchCurrentLeader         = 1
	fetchSnapshotTag           = 2
	fetchNodeEndpointTag       = 0
)

// AppendFetchResponse appends header and body of r, the answer to h, to p. It
// copies no records; the records' payloads of r are empty afterwards, their
// files belong to p.
func AppendFetchResponse(p *Payload, h RequestHeader, r *FetchResponse) {
	e := fetchEncoder{version: h.Version, flexible: h.Version >= fetchFlexible}
	p.grow(func(dst []byte) []byte {
		dst = AppendResponseHeader(dst, h)
		dst = binary.BigEndian.AppendUint32(dst, uint32(r.ThrottleMs))
		if e.version >= fetchSessions {
			dst = binary.BigEndian.AppendUint16(dst, uint16(r.ErrorCode))
			dst = binary.BigEndian.AppendUint32(dst, uint32(r.SessionID))
		}
		return e.arrayLen(dst, len(r.Topics))
	})
	for i := range r.Topics {
		e.topic(p, &r.Topics[i])
	}
	if e.flexible {
		p.grow(func(dst []byte) []byte { return e.nodeEndpoints(dst, r.NodeEndpoints) })
	}
}

type fetchEncoder struct {
	version  int16
	flexible bool
}

func (e fetchEncoder) topic(p *Payload, t *FetchTopic) {
	p.grow(func(dst []byte) []byte {
		if e.version >= fetchTopicIDs {
			dst = append(dst, t.TopicID[:]...)
		} else {
			dst = e.string(dst, t.Topic)
		}
		return e.arrayLen(dst, len(t.Partitions))
	})
	for i := range t.Partitions {
		part := &t.Partitions[i]
		p.grow(func(dst []byte) []byte { return e.partitionHead(dst, part) })
		p.AppendPayload(&part.Records)
		if e.flexible {
			p.grow(func(dst []byte) []byte { return e.partitionTags(dst, part) })
		}
	}
	if e.flexible {
		p.grow(func(dst []byte) []byte { return append(dst, 0) })
	}
}

// partitionHead is everything before the bytes of the records.
func (e fetchEncoder) partitionHead(dst []byte, f *FetchPartition) []byte {
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(f.Partition))
	dst = be.AppendUint16(dst, uint16(f.ErrorCode))
	dst = be.AppendUint64(dst, uint64(f.HighWatermark))
	dst = be.AppendUint64(dst, uint64(f.LastStableOffset))
	if e.version >= fetchLogStart {
		dst = be.AppendUint64(dst, uint64(f.LogStartOffset))
	}
	if f.AbortedTransactions == nil {
		dst = e.arrayLen(dst, -1)
	} else {
		dst = e.arrayLen(dst, len(f.AbortedTransactions))
	}
	for _, a := range f.AbortedTransactions {
		dst = be.AppendUint64(dst, uint64(a.ProducerID))
		dst = be.AppendUint64(dst, uint64(a.FirstOffset))
		if e.flexible {
			dst = append(dst, 0)
		}
	}
	if e.version >= fetchPreferredRead {
		dst = be.AppendUint32(dst, uint32(f.PreferredReadReplica))
	}
	return e.arrayLen(dst, f.Records.SizeBytes()) // bytes have an array's length field
}

// partitionTags is the tag section behind the records.
func (e fetchEncoder) partitionTags(dst []byte, f *FetchPartition) []byte {
	n := 0
	for _, set := range []bool{f.DivergingEpoch != nil, f.CurrentLeader != nil, f.SnapshotID != nil} {
		if set {
			n++
		}
	}
	dst = append(dst, byte(n))
	be := binary.BigEndian
	if d := f.DivergingEpoch; d != nil {
		dst = append(dst, fetchDivergingTag, 13)
		dst = be.AppendUint32(dst, uint32(d.Epoch))
		dst = be.AppendUint64(dst, uint64(d.EndOffset))
		dst = append(dst, 0)
	}
	if l := f.CurrentLeader; l != nil {
		dst = append(dst, fetchCurrentLeader, 9)
		dst = be.AppendUint32(dst, uint32(l.LeaderID))
		dst = be.AppendUint32(dst, uint32(l.LeaderEpoch))
		dst = append(dst, 0)
	}
	if s := f.SnapshotID; s != nil { // offset before epoch, unlike the diverging epoch
		dst = append(dst, fetchSnapshotTag, 13)
		dst = be.AppendUint64(dst, uint64(s.EndOffset))
		dst = be.AppendUint32(dst, uint32(s.Epoch))
		dst = append(dst, 0)
	}
	return dst
}

// nodeEndpoints is the tag section of the whole response.
func (e fetchEncoder) nodeEndpoints(dst []byte, nodes []NodeEndpoint) []byte {
	if e.version < fetchNodeEndpoints || len(nodes) == 0 {
		return append(dst, 0)
	}
	var content []byte // only on answers that redirect a client
	content = e.arrayLen(content, len(nodes))
	for _, n := range nodes {
		content = binary.BigEndian.AppendUint32(content, uint32(n.NodeID))
		content = e.string(content, n.Host)
		content = binary.BigEndian.AppendUint32(content, uint32(n.Port))
		if n.Rack == nil {
			content = append(content, 0)
		} else {
			content = e.string(content, *n.Rack)
		}
		content = append(content, 0)
	}
	dst = append(dst, 1, fetchNodeEndpointTag)
	dst = binary.AppendUvarint(dst, uint64(len(content)))
	return append(dst, content...)
}

// arrayLen appends the length of an array or of bytes; -1 is null.
func (e fetchEncoder) arrayLen(dst []byte, n int) []byte {
	if e.flexible {
		return binary.AppendUvarint(dst, uint64(n+1))
	}
	return binary.BigEndian.AppendUint32(dst, uint32(int32(n)))
}

func (e fetchEncoder) string(dst []byte, s string) []byte {
	if e.flexible {
		dst = binary.AppendUvarint(dst, uint64(len(s)+1))
	} else {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	}
	return append(dst, s...)
}
