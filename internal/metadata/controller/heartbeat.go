package controller

import (
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// BrokerHeartbeatInput is a BrokerHeartbeat request.
type BrokerHeartbeatInput struct {
	NowMs int64
	Req   *kmsg.BrokerHeartbeatRequest
	// NextOffset is the offset of the next record to be appended.
	NextOffset int64
}

// brokerState is what a broker is to the controller (BrokerControlState).
type brokerState int8

const (
	stateFenced brokerState = iota
	stateUnfenced
	stateControlledShutdown
	stateShutdownNow
)

func (s brokerState) fenced() bool { return s == stateFenced || s == stateShutdownNow }

// BrokerHeartbeat keeps a broker's session alive and moves it between fenced,
// unfenced, controlled shutdown and gone. Running it twice is as good as once (ReplicationControlManager.
// processBrokerHeartbeat; KIP-631, KIP-841, KIP-858, KIP-1066).
func (c *Core) BrokerHeartbeat(in BrokerHeartbeatInput) Result[*kmsg.BrokerHeartbeatResponse] {
	req := in.Req
	resp := kmsg.NewPtrBrokerHeartbeatResponse()
	resp.Version = req.Version
	if err := c.checkBrokerEpoch(req.BrokerID, req.BrokerEpoch); err != nil {
		resp.ErrorCode = int16(err.Code)
		return Result[*kmsg.BrokerHeartbeatResponse]{Response: resp, Refused: err.Message}
	}
	b, _ := c.now().Cluster.Broker(req.BrokerID)
	c.contacts[brokerSession{b.ID, b.Epoch}] = in.NowMs
	c.localHeard = c.localHeard || b.ID == c.opts.NodeID
	pr := c.progress[b.ID]
	pr.metadataOffset = req.CurrentMetadataOffset
	current := brokerStateOf(b)
	if current == stateControlledShutdown && pr.shutdownOffset < 0 {
		// The others must have read all that took the broker out of its ISRs.
		pr.shutdownOffset = in.NextOffset - 1
	}
	next := c.nextBrokerState(b, pr, req)

	p := c.newPlan()
	if next != current || next == stateControlledShutdown && c.index.hasLeaderships(b.ID) {
		c.planState(p, b, next)
	}
	c.planOfflineDirs(p, b, req.OfflineLogDirs)
	planCordonedDirs(p, b, req.CordonedLogDirs)
	resp.IsCaughtUp = req.CurrentMetadataOffset >= c.registeredAt[b.ID]
	resp.IsFenced = next.fenced()
	resp.ShouldShutdown = next == stateShutdownNow
	return Result[*kmsg.BrokerHeartbeatResponse]{Records: p.records, Response: resp}
}

// brokerStateOf is what the registration says. Kafka keeps controlled shutdown
// in soft state too; the registration alone survives a change of controller.
func brokerStateOf(b *image.Broker) brokerState {
	switch {
	case b.Fenced:
		return stateFenced
	case b.InControlledShutdown:
		return stateControlledShutdown
	}
	return stateUnfenced
}

// nextBrokerState is BrokerHeartbeatManager.calculateNextBrokerState.
func (c *Core) nextBrokerState(b *image.Broker, pr *brokerProgress, req *kmsg.BrokerHeartbeatRequest) brokerState {
	current := brokerStateOf(b)
	switch current {
	case stateFenced:
		if req.WantShutdown {
			return stateShutdownNow
		}
		// No record takes a broker out of controlled shutdown but a new registration.
		if !req.WantFence && !b.InControlledShutdown && req.CurrentMetadataOffset >= c.registeredAt[b.ID] {
			return stateUnfenced
		}
	case stateUnfenced:
		switch {
		case req.WantFence && req.WantShutdown:
			return stateShutdownNow
		case req.WantFence:
			return stateFenced
		case req.WantShutdown && c.index.hasLeaderships(b.ID):
			return stateControlledShutdown
		case req.WantShutdown:
			return stateShutdownNow
		}
	case stateControlledShutdown:
		if !c.index.hasLeaderships(b.ID) && pr.shutdownOffset <= c.lowestActiveOffset() {
			return stateShutdownNow
		}
	}
	return current
}

// lowestActiveOffset is how far every active broker has read; no limit when
// there is none.
func (c *Core) lowestActiveOffset() int64 {
	lowest := int64(math.MaxInt64)
	for b := range c.now().Cluster.All() {
		if pr := c.progress[b.ID]; c.isActive(b.ID) && pr != nil {
			lowest = min(lowest, pr.metadataOffset)
		}
	}
	return lowest
}

func (c *Core) planState(p *plan, b *image.Broker, next brokerState) {
	switch next {
	case stateFenced, stateShutdownNow:
		c.planFenced(p, b)
	case stateUnfenced:
		p.add(&recordschema.BrokerRegistrationChangeRecord{
			BrokerID: b.ID, BrokerEpoch: b.Epoch, Fenced: recordschema.FencingUnfence,
		})
		p.updateLeaders(leaderUpdate{remove: recordschema.NoLeader, add: b.ID, unclean: recordschema.NoLeader}, c.index.leaderless())
	case stateControlledShutdown:
		if !b.InControlledShutdown {
			p.add(&recordschema.BrokerRegistrationChangeRecord{
				BrokerID: b.ID, BrokerEpoch: b.Epoch, InControlledShutdown: recordschema.ControlledShutdownEntered,
			})
		}
		p.updateLeaders(leaderUpdate{remove: b.ID, add: recordschema.NoLeader, unclean: recordschema.NoLeader}, c.index.isr[b.ID])
	}
}

// planOfflineDirs moves leaders off directories that failed (KIP-858). When all
// directories are gone nothing is left to record: the broker will stop.
func (c *Core) planOfflineDirs(p *plan, b *image.Broker, offline [][16]byte) {
	failed := dirsIn(b.LogDirs, offline, true)
	if len(failed) == 0 {
		return
	}
	for _, dir := range failed {
		p.updateLeaders(leaderUpdate{remove: b.ID, add: recordschema.NoLeader, unclean: recordschema.NoLeader}, c.index.dirs[dir])
	}
	if online := dirsIn(b.LogDirs, offline, false); len(online) > 0 {
		p.add(&recordschema.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, LogDirs: online})
	}
}

// planCordonedDirs records which directories take no new replicas (KIP-1066);
// nil means that the broker does not know yet.
func planCordonedDirs(p *plan, b *image.Broker, cordoned [][16]byte) {
	if cordoned == nil {
		return
	}
	dirs := make([]types.UUID, 0, len(cordoned))
	for _, dir := range cordoned {
		dirs = append(dirs, dir)
	}
	if b.CordonedLogDirs != nil && sameDirs(b.CordonedLogDirs, dirs) {
		return
	}
	p.add(&recordschema.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, CordonedLogDirs: dirs})
}

func sameDirs(a, b []types.UUID) bool {
	for _, dir := range a {
		if !slices.Contains(b, dir) {
			return false
		}
	}
	for _, dir := range b {
		if !slices.Contains(a, dir) {
			return false
		}
	}
	return true
}

// errCode is the code of an error as a response field; nil is NONE.
func errCode(e *kerrors.Error) int16 {
	if e == nil {
		return 0
	}
	return int16(e.Code)
}
