package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/network"
)

// InitProducerId (22), versions 0 to 5, for idempotent producers. A
// transactional id is refused with UNSUPPORTED_VERSION until transactions are
// served: clients then fail at once with a clear error instead of retrying.
func (b *Broker) initProducerID(ctx context.Context, _ *network.Request, req *kmsg.InitProducerIDRequest) *kmsg.InitProducerIDResponse {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case req.TransactionalID != nil && *req.TransactionalID == "",
		(req.ProducerID == -1) != (req.ProducerEpoch == -1): // both or neither (KIP-360)
		resp.ErrorCode = int16(kerrors.InvalidRequest)
		return resp
	case req.TransactionalID != nil:
		resp.ErrorCode = int16(kerrors.UnsupportedVersion)
		return resp
	}
	id, err := b.d.ProducerIDs.Next(ctx)
	if err != nil {
		resp.ErrorCode = code(err)
		return resp
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp
}
