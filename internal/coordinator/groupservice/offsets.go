package groupservice

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group"
	"github.com/tidemark-io/tidemark/internal/coordinator/runtime"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// Commit stores offsets. Topic names must be set whatever the version; ids are
// stored where they are set. Every asked partition is in the answer.
func (s *Service) Commit(ctx context.Context, req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	resp, err := write(ctx, s, req.Group, func(g *group.Shard) (coordinator.Result[*kmsg.OffsetCommitResponse], error) {
		return g.CommitOffsets(s.now(), req)
	})
	if err == nil {
		return resp
	}
	resp = kmsg.NewPtrOffsetCommitResponse()
	resp.SetVersion(req.Version)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, int16(kerrors.CodeOf(err))
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// Fetch reads one group's offsets. Topic names must be set whatever the
// version; nil topics mean all. An error is the group's error code.
func (s *Service) Fetch(ctx context.Context, req *kmsg.OffsetFetchRequestGroup, requireStable bool) kmsg.OffsetFetchResponseGroup {
	resp, err := s.fetch(ctx, req, requireStable)
	if err == nil {
		return resp
	}
	failed := kmsg.NewOffsetFetchResponseGroup()
	failed.Group, failed.ErrorCode = req.Group, int16(kerrors.CodeOf(err))
	return failed
}

func (s *Service) fetch(ctx context.Context, req *kmsg.OffsetFetchRequestGroup, requireStable bool) (kmsg.OffsetFetchResponseGroup, error) {
	if requireStable {
		// Waits for what is not committed yet, so that nothing is missed: as a
		// write without records.
		return write(ctx, s, req.Group, func(g *group.Shard) (coordinator.Result[kmsg.OffsetFetchResponseGroup], error) {
			return coordinator.Result[kmsg.OffsetFetchResponseGroup]{Response: g.FetchOffsets(req, 0, true)}, nil
		})
	}
	tp, err := s.shardOf(req.Group)
	if err != nil {
		return kmsg.OffsetFetchResponseGroup{}, err
	}
	return wait(ctx, func(done func(kmsg.OffsetFetchResponseGroup, error)) {
		runtime.Read(s.runtime, tp, func(g *group.Shard, committed int64) (kmsg.OffsetFetchResponseGroup, error) {
			return g.FetchOffsets(req, committed, false), nil
		}, done)
	})
}

// DeleteOffsets removes committed offsets (OffsetDelete).
func (s *Service) DeleteOffsets(ctx context.Context, req *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	resp, err := write(ctx, s, req.Group, func(g *group.Shard) (coordinator.Result[*kmsg.OffsetDeleteResponse], error) {
		return g.DeleteOffsets(s.now(), req)
	})
	if err != nil {
		resp = kmsg.NewPtrOffsetDeleteResponse()
		resp.ErrorCode = int16(kerrors.CodeOf(err))
	}
	return resp
}

// DeleteGroup removes an empty group with its offsets (DeleteGroups).
func (s *Service) DeleteGroup(ctx context.Context, id string) error {
	_, err := write(ctx, s, id, func(g *group.Shard) (coordinator.Result[struct{}], error) { return g.DeleteGroup(s.now(), id) })
	return err
}
