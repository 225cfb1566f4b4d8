package load

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// rebalanceTimeoutMs is what members say of themselves.
const rebalanceTimeoutMs = 300_000

// retryPause is how long a member waits after an error that passes.
const retryPause = 50 * time.Millisecond

// write sends the heartbeats that are due, as many with one write as there are.
func (g *Group) write(c *groupConn) {
	defer close(c.sent)
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	var buf, one []byte
	for m := range c.ready {
		buf = buf[:0]
		for more := true; more; {
			if m == nil {
				return
			}
			g.fill(req, m)
			one = f.AppendRequest(one[:0], req, 1) // it writes the size at the beginning
			buf = append(buf, one...)
			c.sent <- m
			select {
			case m = <-c.ready:
			default:
				more = false
			}
		}
		if err := c.Write(buf); err != nil {
			g.fail(err)
			return
		}
	}
}

func (g *Group) fill(req *kmsg.ConsumerGroupHeartbeatRequest, m *groupMember) {
	*req = kmsg.NewConsumerGroupHeartbeatRequest()
	req.SetVersion(1)
	req.Group, req.MemberID, req.MemberEpoch = g.o.Group, m.id, m.epoch
	if m.epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = rebalanceTimeoutMs, g.o.Topics
	}
	if m.report || m.epoch == 0 {
		req.Topics = append([]kmsg.ConsumerGroupHeartbeatRequestTopic{}, m.assignment...)
	}
}

// read takes the answers, which come in the order of the requests.
func (g *Group) read(c *groupConn) {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.SetVersion(1)
	for m := range c.sent {
		b, err := c.Read()
		if err != nil {
			g.fail(err)
			return
		}
		*resp = kmsg.ConsumerGroupHeartbeatResponse{Version: 1}
		if err := Decode(b, resp); err != nil {
			g.fail(err)
			return
		}
		g.beats.Add(1)
		pause, err := g.answered(m, resp)
		if err != nil {
			g.fail(err)
			return
		}
		if pause == 0 {
			c.ready <- m
			continue
		}
		time.AfterFunc(pause, func() {
			if !g.closing.Load() {
				c.ready <- m
			}
		})
	}
}

// answered does what the coordinator says and returns when the member is to be
// heard of again.
func (g *Group) answered(m *groupMember, resp *kmsg.ConsumerGroupHeartbeatResponse) (pause time.Duration, err error) {
	switch kerrors.Code(resp.ErrorCode) {
	case kerrors.None:
	case kerrors.CoordinatorLoadInProgress, kerrors.NotCoordinator, kerrors.CoordinatorNotAvailable:
		return retryPause, nil
	default:
		return 0, fmt.Errorf("%s in epoch %d: error %d", m.id, m.epoch, resp.ErrorCode)
	}
	m.report = resp.Assignment != nil
	if m.report || resp.MemberEpoch != m.epoch {
		g.moved(m, resp)
	}
	if m.report || g.nonstop.Load() {
		return 0, nil
	}
	return g.o.Every, nil
}

// moved takes over a member's new place.
func (g *Group) moved(m *groupMember, resp *kmsg.ConsumerGroupHeartbeatResponse) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count(m, -1)
	m.epoch = resp.MemberEpoch
	if resp.Assignment != nil {
		m.assignment, m.owns = m.assignment[:0], 0
		for _, t := range resp.Assignment.Topics {
			rt := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			rt.TopicID, rt.Partitions = t.TopicID, t.Partitions
			m.assignment, m.owns = append(m.assignment, rt), m.owns+len(t.Partitions)
		}
	}
	g.count(m, +1)
	switch {
	case !g.fair():
		g.settled = time.Time{}
	case g.settled.IsZero():
		g.settled = time.Now()
	}
}

// count adds a member to the tally, or takes it out.
func (g *Group) count(m *groupMember, by int) {
	g.owned += by * m.owns
	if g.counts[m.owns] += by; g.counts[m.owns] == 0 {
		delete(g.counts, m.owns)
	}
	if g.epochs[m.epoch] += by; g.epochs[m.epoch] == 0 {
		delete(g.epochs, m.epoch)
	}
}

// fair reports that all members are in one epoch and have the same number of
// partitions, but for one.
func (g *Group) fair() bool {
	if len(g.epochs) != 1 || g.epochs[0] > 0 || g.owned != g.o.Partitions || len(g.counts) > 2 {
		return false
	}
	least := g.o.Partitions / len(g.members)
	for n := range g.counts {
		if n != least && n != least+1 {
			return false
		}
	}
	return true
}
