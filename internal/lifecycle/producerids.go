package lifecycle

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// prefetchDivisor: the next block is fetched when a tenth of the current one is
// left (RPCProducerIdManager).
const prefetchDivisor = 10

// idBlock is a range of ids: next is the first one that is free.
type idBlock struct{ next, end int64 }

// ProducerIDs hands out producer ids from blocks of 1000 that the controller
// allocates. Every id is handed out once: what is left of a block is forgotten
// when the process stops.
type ProducerIDs struct {
	ch     Sender
	nodeID int32
	epoch  func() int64

	mu       sync.Mutex
	block    idBlock
	ahead    idBlock
	fetching bool
	arrived  chan struct{} // closed and replaced when a fetch ended
	lastErr  error
}

// NewProducerIDs returns an allocator; epoch gives the broker epoch. Blocks are
// fetched when they are needed.
func NewProducerIDs(ch Sender, nodeID int32, epoch func() int64) *ProducerIDs {
	return &ProducerIDs{ch: ch, nodeID: nodeID, epoch: epoch, arrived: make(chan struct{})}
}

// Next returns an id that nobody else got. It waits for a block when none is
// left; COORDINATOR_LOAD_IN_PROGRESS, which clients retry, when ctx ends first
// or the controller refuses.
func (p *ProducerIDs) Next(ctx context.Context) (int64, error) {
	for {
		p.mu.Lock()
		if p.block.next == p.block.end {
			p.block, p.ahead = p.ahead, idBlock{}
		}
		if p.block.next < p.block.end {
			id := p.block.next
			p.block.next++
			p.prefetchLocked()
			p.mu.Unlock()
			return id, nil
		}
		p.fetchLocked()
		arrived := p.arrived
		p.mu.Unlock()
		select {
		case <-arrived:
			p.mu.Lock()
			err := p.lastErr
			p.mu.Unlock()
			if err != nil {
				return 0, kerrors.Wrap(kerrors.CoordinatorLoadInProgress, err, "no producer id at the moment")
			}
		case <-ctx.Done():
			return 0, kerrors.Wrap(kerrors.CoordinatorLoadInProgress, ctx.Err(), "no producer id in time")
		}
	}
}

func (p *ProducerIDs) prefetchLocked() {
	const blockLen = 1000
	if p.ahead.next == p.ahead.end && p.block.end-p.block.next < blockLen/prefetchDivisor {
		p.fetchLocked()
	}
}

func (p *ProducerIDs) fetchLocked() {
	if p.fetching {
		return
	}
	p.fetching = true
	go p.fetch()
}

func (p *ProducerIDs) fetch() {
	ctx, cancel := context.WithTimeout(context.Background(), defaultRequestTimeoutMs*1e6)
	defer cancel()
	block, err := p.allocate(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetching, p.lastErr = false, err
	if err == nil {
		p.ahead = block
	}
	close(p.arrived)
	p.arrived = make(chan struct{})
}

func (p *ProducerIDs) allocate(ctx context.Context) (idBlock, error) {
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = p.nodeID, p.epoch()
	resp, err := p.ch.Send(ctx, req)
	if err != nil {
		return idBlock{}, err
	}
	r, ok := resp.(*kmsg.AllocateProducerIDsResponse)
	if !ok {
		return idBlock{}, fmt.Errorf("allocate producer ids: answer of another kind")
	}
	if code := kerrors.Code(r.ErrorCode); code != kerrors.None {
		return idBlock{}, code
	}
	if r.ProducerIDStart < 0 || r.ProducerIDLen <= 0 || r.ProducerIDStart+int64(r.ProducerIDLen) < r.ProducerIDStart {
		return idBlock{}, fmt.Errorf("allocate producer ids: block of %d from %d", r.ProducerIDLen, r.ProducerIDStart)
	}
	return idBlock{r.ProducerIDStart, r.ProducerIDStart + int64(r.ProducerIDLen)}, nil
}
