package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// groupIDNotFoundVersion is the first OffsetCommit version that may answer
// GROUP_ID_NOT_FOUND for an unknown group; older ones get ILLEGAL_GENERATION.
const groupIDNotFoundVersion = 9

// CommitOffsets turns an OffsetCommit into records. Topic names must be set in
// req, whatever its version (the caller resolves ids, and answers the
// unresolved and unauthorized ones itself); topic ids are kept in the records.
// An error is about the whole request. A member's commit renews its session.
// Versions 2 to 10.
func (s *Shard) CommitOffsets(now coordinator.Now, req *kmsg.OffsetCommitRequest) (coordinator.Result[*kmsg.OffsetCommitResponse], error) {
	var out coordinator.Result[*kmsg.OffsetCommitResponse]
	nowMs := now.WallMs
	fence, code := s.checkCommit(now, req)
	if code != kerrors.None {
		return out, code
	}
	expire := expireByRetention
	if req.Version <= 4 && req.RetentionTimeMillis != -1 {
		expire = nowMs + req.RetentionTimeMillis
	}
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.SetVersion(req.Version)
	for i := range req.Topics {
		t := &req.Topics[i]
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for j := range t.Partitions {
			p := &t.Partitions[j]
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition = p.Partition
			o, ok := s.offsetOf(nowMs, expire, t, p)
			if code := fence(t.TopicID, p.Partition); code != kerrors.None {
				rp.ErrorCode = int16(code)
			} else if ok {
				tp := types.TopicPartition{Topic: t.Topic, Partition: p.Partition}
				out.Records = append(out.Records, offsetRecord(req.Group, tp, o))
			} else {
				rp.ErrorCode = int16(kerrors.OffsetMetadataTooLarge)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	// A commit that is refused whole leaves a group all the same: Kafka makes it
	// before it looks at the offsets (OffsetMetadataManager.validateOffsetCommit).
	// It is not in the log: it can be deleted, is shown once something else is
	// committed, and goes with the next expiry.
	if len(out.Records) == 0 {
		s.ensure(s.next, req.Group)
	}
	out.Response = resp
	return out, nil
}

// offsetOf builds the offset to store; false when its metadata is too large.
func (s *Shard) offsetOf(nowMs, expire int64, t *kmsg.OffsetCommitRequestTopic, p *kmsg.OffsetCommitRequestTopicPartition) (Offset, bool) {
	o := Offset{
		Offset: p.Offset, LeaderEpoch: max(p.LeaderEpoch, -1), CommitTimeMs: nowMs, ExpireTimeMs: expire, TopicID: t.TopicID,
	}
	if p.Metadata != nil {
		o.Metadata = *p.Metadata
	}
	return o, charCount(o.Metadata) <= s.cfg.MetadataMaxChars
}

// checkCommit says whether the group lets req in
// (OffsetMetadataManager.validateOffsetCommit); fence decides for each partition.
func (s *Shard) checkCommit(now coordinator.Now, req *kmsg.OffsetCommitRequest) (fence func(types.UUID, int32) kerrors.Code, code kerrors.Code) {
	open := func(types.UUID, int32) kerrors.Code { return kerrors.None }
	if g := s.consumerGroup(req.Group, latest); g != nil {
		fence, code = g.CheckCommit(req.MemberID, req.InstanceID, req.Generation, false, req.Version)
		if fence == nil {
			fence = open
		}
		return fence, code
	}
	if g := s.classicGroup(now, req.Group); g != nil {
		return open, g.CheckCommit(now, req.MemberID, req.InstanceID, req.Generation, false)
	}
	_, known := s.group(req.Group, latest)
	switch {
	case req.Generation < 0:
		// A simple group, made by this commit if need be. While nobody is a member,
		// Kafka does not look at the member id (ClassicGroup.validateOffsetCommit).
		return open, kerrors.None
	case known:
		return open, kerrors.UnknownMemberID // nobody is a member of a simple group
	case req.Version >= groupIDNotFoundVersion:
		return open, kerrors.GroupIDNotFound
	}
	return open, kerrors.IllegalGeneration
}
