package quorum

import (
	"context"

	"go.etcd.io/raft/v3/raftpb"
)

// Transport carries raft messages between voters. Send must not block: what
// cannot be queued is dropped, raft sends again. The receiver hands messages
// to Node.Step.
type Transport interface {
	Send(to Voter, m *raftpb.Message)
	// FetchSnapshot reads up to maxBytes of a snapshot of another voter from
	// a position, and returns the snapshot's total size (FetchSnapshot RPC).
	FetchSnapshot(ctx context.Context, from Voter, id SnapshotID, position int64, maxBytes int) (data []byte, totalBytes int64, err error)
}
