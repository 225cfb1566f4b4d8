package quorum

import (
	"errors"

	"github.com/tidemark-io/tidemark/internal/recordschema"
)

// Errors of a Node.
var (
	// ErrNotLeader: this node is not the leader, or not yet caught up with its own epoch.
	ErrNotLeader = errors.New("quorum: not the leader")
	// ErrBusy: too many bytes wait for a commit.
	ErrBusy = errors.New("quorum: too many uncommitted bytes")
	// ErrTooLarge: the records do not fit one batch and have to.
	ErrTooLarge = errors.New("quorum: records exceed one batch")
	// ErrOffsetMoved: ProposeAt's offset is not the next one any more.
	ErrOffsetMoved = errors.New("quorum: another record took the offset")
	// ErrClosed: the node has stopped.
	ErrClosed = errors.New("quorum: closed")
)

// SnapshotID names a snapshot: Offset is the first offset that is not in it.
type SnapshotID struct {
	Offset int64
	Epoch  int32
}

// Batch is one committed batch. Control batches have no Records but take
// offsets all the same. Listeners share Records and must not change them.
type Batch struct {
	BaseOffset  int64
	LastOffset  int64
	Epoch       int32
	TimestampMs int64
	SizeBytes   int
	Control     bool
	Records     []recordschema.MetadataRecord
}

// Committed is a run of consecutive committed batches. HighWatermark is the
// first offset not known to be committed at that time: when it is beyond the
// last batch, more follows at once (a listener that loads a log after a start
// publishes when it has reached it).
type Committed struct {
	Batches       []Batch
	HighWatermark int64
}

// Leadership is a change of leader or epoch as this node sees it.
type Leadership struct {
	Epoch    int32
	LeaderID int32 // -1: none known
	// IsSelf: this node leads Epoch and everything before and including the
	// epoch's LeaderChange batch was given to the listener. Propose works.
	IsSelf bool
	// StartOffset is the offset after that LeaderChange batch when IsSelf.
	StartOffset int64
}

// Listener follows the log. Calls come from one goroutine, in order, and hold
// up the node: a listener that has work to do queues it. OnSnapshot means that
// all earlier state is void: the listener starts again from the snapshot.
type Listener interface {
	OnCommitted(Committed)
	OnSnapshot(*SnapshotReader)
	OnLeadership(Leadership)
}
