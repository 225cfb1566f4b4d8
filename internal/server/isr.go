package server

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/partition"
	"github.com/tidemark-io/tidemark/internal/types"
)

// alterPartitionTimeout bounds one proposal; the partition proposes again.
const alterPartitionTimeout = 10 * time.Second

// isrSender carries ISR proposals to the active controller (AlterPartition,
// KIP-497).
type isrSender struct{ s *Server }

// AlterPartition implements replica.AlterPartitionSender.
func (i *isrSender) AlterPartition(tp types.TopicIDPartition, a partition.AlterPartition, done func(partition.AlterResult)) {
	req := kmsg.NewPtrAlterPartitionRequest()
	req.BrokerID, req.BrokerEpoch = i.s.cfg.NodeID, i.s.broker.Epoch()
	p := kmsg.NewAlterPartitionRequestTopicPartition()
	p.Partition, p.LeaderEpoch, p.PartitionEpoch = tp.Partition, a.LeaderEpoch, a.PartitionEpoch
	for _, m := range a.ISR {
		e := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		e.BrokerID, e.BrokerEpoch = m.ID, m.BrokerEpoch
		p.NewEpochISR = append(p.NewEpochISR, e)
	}
	t := kmsg.NewAlterPartitionRequestTopic()
	t.TopicID, t.Partitions = tp.TopicID, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), alterPartitionTimeout)
		defer cancel()
		resp, err := i.s.channel.Send(ctx, req)
		done(alterResult(a.Token, resp, err))
	}()
}

func alterResult(token int64, resp kmsg.Response, err error) partition.AlterResult {
	out := partition.AlterResult{Token: token}
	if err != nil {
		out.Code = kerrors.CodeOf(err)
		return out
	}
	r := resp.(*kmsg.AlterPartitionResponse)
	if r.ErrorCode != 0 || len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		out.Code = kerrors.Code(r.ErrorCode)
		if out.Code == kerrors.None {
			out.Code = kerrors.UnknownServerError
		}
		return out
	}
	p := r.Topics[0].Partitions[0]
	out.Code, out.LeaderEpoch, out.PartitionEpoch = kerrors.Code(p.ErrorCode), p.LeaderEpoch, p.PartitionEpoch
	out.ISR, out.Recovering = p.ISR, p.LeaderRecoveryState == 1
	return out
}
