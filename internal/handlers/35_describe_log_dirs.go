package handlers

import (
	"context"
	"sort"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/types"
)

// DescribeLogDirs (35), versions 1 to 5. Null topics mean every log; v4 has the
// disk's size and free bytes, v5 says whether the folder is cordoned.
func (b *Broker) describeLogDirs(_ context.Context, _ *network.Request, req *kmsg.DescribeLogDirsRequest) *kmsg.DescribeLogDirsResponse {
	var filter map[types.TopicPartition]bool
	if req.Topics != nil {
		filter = map[types.TopicPartition]bool{}
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				filter[types.TopicPartition{Topic: t.Topic, Partition: p}] = true
			}
		}
	}
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	for _, d := range b.d.Replicas.DescribeLogDirs(filter) {
		dir := kmsg.NewDescribeLogDirsResponseDir()
		dir.Dir, dir.ErrorCode = d.Path, int16(d.Code)
		dir.TotalBytes, dir.UsableBytes = d.TotalBytes, d.UsableBytes
		byTopic := map[string][]kmsg.DescribeLogDirsResponseDirTopicPartition{}
		for _, l := range d.Logs {
			p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			p.Partition, p.Size, p.OffsetLag, p.IsFuture = l.TP.Partition, l.SizeBytes, l.OffsetLag, l.Future
			byTopic[l.TP.Topic] = append(byTopic[l.TP.Topic], p)
		}
		for topic, parts := range byTopic {
			t := kmsg.NewDescribeLogDirsResponseDirTopic()
			t.Topic, t.Partitions = topic, parts
			dir.Topics = append(dir.Topics, t)
		}
		sort.Slice(dir.Topics, func(i, j int) bool { return dir.Topics[i].Topic < dir.Topics[j].Topic })
		resp.Dirs = append(resp.Dirs, dir)
	}
	return resp
}
