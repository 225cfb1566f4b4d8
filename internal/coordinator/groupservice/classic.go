package groupservice

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/classic"
	"github.com/tidemark-io/tidemark/internal/coordinator/runtime"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// once calls done for the first answer only: a request that the core parked may
// be answered by the core, or by the runtime when the shard is lost.
type once[R any] struct {
	done     func(R)
	answered bool // of the shard's turn: no lock
}

func (o *once[R]) answer(r R) {
	if !o.answered {
		o.answered = true
		o.done(r)
	}
}

type joinWaiter struct {
	once[*kmsg.JoinGroupResponse]
}

func (w *joinWaiter) AnswerJoin(r *kmsg.JoinGroupResponse) { w.answer(r) }

type syncWaiter struct {
	once[*kmsg.SyncGroupResponse]
}

func (w *syncWaiter) AnswerSync(r *kmsg.SyncGroupResponse) { w.answer(r) }

// JoinGroup handles a JoinGroup. done is called exactly once, from any
// goroutine, perhaps before JoinGroup returns and perhaps minutes later: when
// all members have joined.
func (s *Service) JoinGroup(req *kmsg.JoinGroupRequest, clientID, clientHost string, done func(*kmsg.JoinGroupResponse)) {
	fail := func(err error) {
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.MemberID, resp.ErrorCode, resp.Generation = req.MemberID, int16(kerrors.CodeOf(err)), -1
		done(resp)
	}
	switch {
	case req.Group == "":
		fail(kerrors.InvalidGroupID)
		return
	case int64(req.SessionTimeoutMillis) < s.opts.MinSessionMs, int64(req.SessionTimeoutMillis) > s.opts.MaxSessionMs:
		fail(kerrors.InvalidSessionTimeout)
		return
	}
	tp, err := s.shardOf(req.Group)
	if err != nil {
		fail(err)
		return
	}
	w := &joinWaiter{once[*kmsg.JoinGroupResponse]{done: done}}
	r := classic.JoinRequest{JoinGroupRequest: req, ClientID: clientID, ClientHost: clientHost, NewMemberID: memberID(clientID, req.InstanceID), To: w}
	runtime.Write(s.runtime, tp, func(g *group.Shard) (coordinator.Result[struct{}], error) { return g.JoinGroup(s.now(), r), nil },
		func(_ struct{}, err error) {
			if err != nil && !w.answered {
				w.answered = true
				fail(err)
			}
		})
}

// memberID makes an id that no other member has: the instance or client id and
// a random UUID (ClassicGroup.generateMemberId).
func memberID(clientID string, instance *string) string {
	if instance != nil {
		return *instance + "-" + randomUUID()
	}
	return clientID + "-" + randomUUID()
}

// randomUUID is a version 4 UUID as Java prints it.
func randomUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	x := hex.EncodeToString(b[:])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}

// newMemberID is the id of a member of a consumer group that brought none.
func newMemberID() string {
	id, err := types.NewUUID(rand.Reader)
	if err != nil {
		return randomUUID()
	}
	return id.String()
}

// SyncGroup handles a SyncGroup; done as for JoinGroup.
func (s *Service) SyncGroup(req *kmsg.SyncGroupRequest, done func(*kmsg.SyncGroupResponse)) {
	fail := func(err error) {
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode, resp.MemberAssignment = int16(kerrors.CodeOf(err)), []byte{}
		done(resp)
	}
	if req.Group == "" {
		fail(kerrors.InvalidGroupID)
		return
	}
	tp, err := s.shardOf(req.Group)
	if err != nil {
		fail(err)
		return
	}
	w := &syncWaiter{once[*kmsg.SyncGroupResponse]{done: done}}
	runtime.Write(s.runtime, tp, func(g *group.Shard) (coordinator.Result[struct{}], error) { return g.SyncGroup(s.now(), req, w), nil },
		func(_ struct{}, err error) {
			if err != nil && !w.answered {
				w.answered = true
				fail(err)
			}
		})
}

// Heartbeat handles a Heartbeat.
func (s *Service) Heartbeat(ctx context.Context, req *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	var resp *kmsg.HeartbeatResponse
	err := checkGroupID(req.Group)
	if err == nil {
		resp, err = write(ctx, s, req.Group, func(g *group.Shard) (coordinator.Result[*kmsg.HeartbeatResponse], error) {
			return g.Heartbeat(s.now(), req)
		})
	}
	if err != nil {
		resp = kmsg.NewPtrHeartbeatResponse()
		if kerrors.CodeOf(err) != kerrors.CoordinatorLoadInProgress { // sessions start anew after the load: all is well
			resp.ErrorCode = int16(kerrors.CodeOf(err))
		}
	}
	return resp
}

func checkGroupID(id string) error {
	if id == "" {
		return kerrors.InvalidGroupID
	}
	return nil
}

// LeaveGroup handles a LeaveGroup. Its members are in the answer whatever the
// version; before version 3 the one member's error is the answer's.
func (s *Service) LeaveGroup(ctx context.Context, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	var resp *kmsg.LeaveGroupResponse
	err := checkGroupID(req.Group)
	if err == nil {
		resp, err = write(ctx, s, req.Group, func(g *group.Shard) (coordinator.Result[*kmsg.LeaveGroupResponse], error) {
			return g.LeaveGroup(s.now(), req)
		})
	}
	if err != nil {
		resp = kmsg.NewPtrLeaveGroupResponse()
		resp.ErrorCode = int16(kerrors.CodeOf(err))
	}
	if kerrors.CodeOf(err) == kerrors.UnknownMemberID { // no such group
		resp.ErrorCode = 0
		for _, m := range group.LeavingMembers(req) {
			rm := kmsg.NewLeaveGroupResponseMember()
			rm.MemberID, rm.InstanceID, rm.ErrorCode = m.MemberID, m.InstanceID, int16(kerrors.UnknownMemberID)
			resp.Members = append(resp.Members, rm)
		}
	}
	if req.Version < 3 && resp.ErrorCode == 0 && len(resp.Members) == 1 {
		resp.ErrorCode = resp.Members[0].ErrorCode
	}
	return resp
}

// DescribeGroup answers DescribeGroups for one group.
func (s *Service) DescribeGroup(ctx context.Context, id string, version int16) kmsg.DescribeGroupsResponseGroup {
	d, err := read(ctx, s, id, func(g *group.Shard, committed int64) (kmsg.DescribeGroupsResponseGroup, error) {
		return g.DescribeGroup(s.now(), id, version, committed), nil
	})
	if err != nil {
		d = kmsg.NewDescribeGroupsResponseGroup()
		d.Group, d.ErrorCode = id, int16(kerrors.CodeOf(err))
	}
	return d
}

// ListGroups lists the groups that this broker coordinates. A shard that moves
// away meanwhile is left out; one that loads makes the answer incomplete, which
// its error says.
func (s *Service) ListGroups(ctx context.Context, req *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	resp := kmsg.NewPtrListGroupsResponse()
	for _, tp := range s.runtime.Shards() {
		groups, err := wait(ctx, func(done func([]kmsg.ListGroupsResponseGroup, error)) {
			runtime.Read(s.runtime, tp, func(g *group.Shard, committed int64) ([]kmsg.ListGroupsResponseGroup, error) {
				return g.ListGroups(s.now(), req, committed), nil
			}, done)
		})
		switch code := kerrors.CodeOf(err); code {
		case kerrors.None:
			resp.Groups = append(resp.Groups, groups...)
		case kerrors.NotCoordinator:
		default:
			resp.ErrorCode, resp.Groups = int16(code), nil
			return resp
		}
	}
	return resp
}

func read[T any](ctx context.Context, s *Service, id string, op func(*group.Shard, int64) (T, error)) (T, error) {
	tp, err := s.shardOf(id)
	if err != nil {
		var none T
		return none, err
	}
	return wait(ctx, func(done func(T, error)) { runtime.Read(s.runtime, tp, op, done) })
}
