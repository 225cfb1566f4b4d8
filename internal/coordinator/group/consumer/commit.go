package consumer

import (
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// commitVersion is the first OffsetCommit that members of this protocol may use.
const commitVersion = 9

// CheckCommit says whether an offset may be committed
// (ConsumerGroup.validateOffsetCommit). When the member's epoch is an older one
// the answer depends on the partition: it is accepted from the epoch on in which
// the member got it (KIP-1251); then partition is not nil.
func (g *Group) CheckCommit(memberID string, instance *string, epoch int32, transactional bool, version int16) (
	partition func(topic types.UUID, p int32) kerrors.Code, code kerrors.Code,
) {
	if epoch < 0 && g.Size() == 0 {
		return nil, kerrors.None
	}
	if transactional && epoch == -1 && memberID == "" && instance == nil {
		return nil, kerrors.None
	}
	m, ok := g.members.Get(memberID, latest)
	if !ok {
		return nil, kerrors.UnknownMemberID
	}
	stale := kerrors.StaleMemberEpoch
	if m.UsesClassic() {
		stale = kerrors.IllegalGeneration
	}
	switch {
	case !transactional && !m.UsesClassic() && version < commitVersion:
		return nil, kerrors.UnsupportedVersion
	case epoch == m.Epoch:
		return nil, kerrors.None
	case epoch > m.Epoch:
		return nil, stale
	}
	return func(topic types.UUID, p int32) kerrors.Code {
		if got, ok := m.AssignmentEpoch(topic, p); !ok || epoch < got {
			return stale
		}
		return kerrors.None
	}, kerrors.None
}

// CheckFetch says whether a member may read offsets; members are known as of
// the committed offset.
func (g *Group) CheckFetch(memberID *string, epoch int32, asOf int64) kerrors.Code {
	if memberID == nil && epoch < 0 {
		return kerrors.None // an admin, or a client that does not say
	}
	id := ""
	if memberID != nil {
		id = *memberID
	}
	m, ok := g.members.Get(id, asOf)
	switch {
	case !ok:
		return kerrors.UnknownMemberID
	case m.Epoch == epoch:
		return kerrors.None
	case m.UsesClassic():
		return kerrors.IllegalGeneration
	}
	return kerrors.StaleMemberEpoch
}
