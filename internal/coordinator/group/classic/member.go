package classic

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// Protocol is one way to assign partitions that a member supports.
type Protocol struct {
	Name     string
	Metadata []byte
}

// Member is one member of a classic group.
type Member struct {
	ID                   string
	InstanceID           *string // nil: dynamic
	ClientID, ClientHost string
	RebalanceMs          int32
	SessionMs            int32
	Protocols            []Protocol // in the member's order
	Assignment           []byte

	protocolType string
	seq          uint64 // order of joining
	join         JoinWaiter
	sync         SyncWaiter
	isNew        bool  // never had an answer to JoinGroup
	seenMs       int64 // tick of the last sign of life
}

// JoinWaiter is who waits for the answer to a JoinGroup.
type JoinWaiter interface{ AnswerJoin(*kmsg.JoinGroupResponse) }

// SyncWaiter is who waits for the answer to a SyncGroup.
type SyncWaiter interface{ AnswerSync(*kmsg.SyncGroupResponse) }

// Metadata returns what the member says under a protocol.
func (m *Member) Metadata(protocol string) []byte {
	for _, p := range m.Protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

func (m *Member) matches(protocols []Protocol) bool {
	return slices.EqualFunc(m.Protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// alive reports a member whose session cannot end now: it is parked. A new
// member's can, for its client may be gone and join again under another id.
func (m *Member) alive() bool { return !m.isNew && (m.join != nil || m.sync != nil) }

// CopyProtocols takes protocols out of a request, whose buffers are not kept.
func CopyProtocols(in []kmsg.JoinGroupRequestProtocol) []Protocol {
	out := make([]Protocol, 0, len(in))
	for _, p := range in {
		// A JoinGroup names each protocol once; the first counts.
		if !slices.ContainsFunc(out, func(q Protocol) bool { return q.Name == p.Name }) {
			out = append(out, Protocol{Name: p.Name, Metadata: append([]byte{}, p.Metadata...)})
		}
	}
	return out
}

// JoinReply answers a JoinGroup when it is delivered.
type JoinReply struct {
	To       JoinWaiter
	Response *kmsg.JoinGroupResponse
}

// Deliver implements coordinator.Effect.
func (r JoinReply) Deliver(_ coordinator.Now, err error) coordinator.Output {
	if err != nil {
		r.Response = joinError(r.Response.MemberID, kerrors.CodeOf(err))
	}
	r.To.AnswerJoin(r.Response)
	return coordinator.Output{}
}

// SyncReply answers a SyncGroup when it is delivered.
type SyncReply struct {
	To       SyncWaiter
	Response *kmsg.SyncGroupResponse
}

// Deliver implements coordinator.Effect.
func (r SyncReply) Deliver(_ coordinator.Now, err error) coordinator.Output {
	if err != nil {
		r.Response = syncError(kerrors.CodeOf(err))
	}
	r.To.AnswerSync(r.Response)
	return coordinator.Output{}
}

func joinError(memberID string, code kerrors.Code) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.MemberID, resp.Generation = int16(code), memberID, -1
	return resp
}

func syncError(code kerrors.Code) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode = int16(code)
	resp.MemberAssignment = []byte{}
	return resp
}

// answerJoin releases a member from its JoinGroup.
func (g *Group) answerJoin(out *coordinator.Output, m *Member, resp *kmsg.JoinGroupResponse) {
	if m.join == nil {
		return
	}
	out.Effects = append(out.Effects, JoinReply{To: m.join, Response: resp})
	g.park(m, nil)
}

// answerSync releases a member from its SyncGroup.
func (g *Group) answerSync(out *coordinator.Output, m *Member, resp *kmsg.SyncGroupResponse) bool {
	if m.sync == nil {
		return false
	}
	out.Effects = append(out.Effects, SyncReply{To: m.sync, Response: resp})
	m.sync = nil
	return true
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
