package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// quorumStateFile is the name in __cluster_metadata-0 (FileQuorumStateStore).
const quorumStateFile = "quorum-state"

// maxSmallFileBytes bounds the small files of this package.
const maxSmallFileBytes = 1 << 20

// loadQuorumState reads term and vote. A missing file is term 0, as after
// Format. A file that does not parse is an error: guessing could vote twice.
func loadQuorumState(fsys vfs.FS, dir string) (recordschema.QuorumState, error) {
	none := recordschema.QuorumState{LeaderID: -1, VotedID: -1}
	path := filepath.Join(dir, quorumStateFile)
	data, err := checkpoint.ReadFile(fsys, path, maxSmallFileBytes)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("quorum: read %s: %w", path, err)
	}
	st, err := recordschema.ParseQuorumState(data)
	if err != nil {
		return none, fmt.Errorf("quorum: %s: %w", path, err)
	}
	return st, nil
}

// saveHardState makes term and vote durable. Leader is -1 when not known.
func saveHardState(fsys vfs.FS, dir string, hs *raftpb.HardState, leader int32, voters *voterSet) error {
	st := recordschema.QuorumState{LeaderID: leader, LeaderEpoch: int32(hs.GetTerm()), VotedID: -1}
	if vote, ok := voters.byRaftID(hs.GetVote()); ok {
		st.VotedID, st.VotedDirectoryID = vote.NodeID, vote.DirectoryID
	}
	if voters.version > 0 {
		st.DataVersion = 1
	} else {
		for _, v := range voters.voters {
			st.CurrentVoters = append(st.CurrentVoters, v.NodeID)
		}
	}
	data, err := recordschema.AppendQuorumState(nil, st)
	if err != nil {
		return fmt.Errorf("quorum: %w", err)
	}
	return checkpoint.WriteFile(fsys, filepath.Join(dir, quorumStateFile), data)
}

// hardState turns the file into raft's form. Nothing says what was committed:
// raft learns it again, so it starts at the snapshot. A known leader counts as
// a vote for it, as Kafka grants no vote in an epoch that has a leader.
func hardState(st recordschema.QuorumState, voters *voterSet, lastEpoch int32, commit uint64) *raftpb.HardState {
	term, vote := st.LeaderEpoch, uint64(0)
	switch {
	case st.VotedID >= 0:
		vote = raftID(st.VotedID, st.VotedDirectoryID)
	case st.LeaderID >= 0:
		for _, v := range voters.voters {
			if v.NodeID == st.LeaderID {
				vote = v.raftID()
			}
		}
	}
	if lastEpoch > term { // the file is older than the log: it was lost
		term, vote = lastEpoch, 0
	}
	if term <= 0 {
		return nil
	}
	t := uint64(term)
	return &raftpb.HardState{Term: &t, Vote: &vote, Commit: &commit}
}
