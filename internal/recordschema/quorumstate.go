package recordschema

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tidemark-io/tidemark/internal/types"
)

// QuorumState is the content of the quorum-state file: what a raft voter must
// remember before it answers a vote (QuorumStateData). LeaderID, VotedID are -1
// when there is none.
type QuorumState struct {
	DataVersion int16 // 0 static voters, 1 dynamic voters (KIP-853)

	LeaderID         int32
	LeaderEpoch      int32
	VotedID          int32
	VotedDirectoryID types.UUID // v1

	// Fields of version 0 only; CurrentVoters nil is null.
	ClusterID     string
	AppliedOffset int64
	CurrentVoters []int32
}

type quorumVoterJSON struct {
	VoterID int32 `json:"voterId"`
}

// quorumStateV0 and quorumStateV1 have their fields in Kafka's order, so that
// files compare byte by byte.
type quorumStateV0 struct {
	ClusterID     string            `json:"clusterId"`
	LeaderID      int32             `json:"leaderId"`
	LeaderEpoch   int32             `json:"leaderEpoch"`
	VotedID       int32             `json:"votedId"`
	AppliedOffset int64             `json:"appliedOffset"`
	CurrentVoters []quorumVoterJSON `json:"currentVoters"`
	DataVersion   int16             `json:"data_version"`
}

type quorumStateV1 struct {
	LeaderID         int32  `json:"leaderId"`
	LeaderEpoch      int32  `json:"leaderEpoch"`
	VotedID          int32  `json:"votedId"`
	VotedDirectoryID string `json:"votedDirectoryId"`
	DataVersion      int16  `json:"data_version"`
}

// AppendQuorumState appends the file's content: one line of JSON, no newline.
func AppendQuorumState(dst []byte, s QuorumState) ([]byte, error) {
	var v any
	switch s.DataVersion {
	case 0:
		v0 := quorumStateV0{
			ClusterID: s.ClusterID, LeaderID: s.LeaderID, LeaderEpoch: s.LeaderEpoch,
			VotedID: s.VotedID, AppliedOffset: s.AppliedOffset,
		}
		if s.CurrentVoters != nil {
			v0.CurrentVoters = make([]quorumVoterJSON, 0, len(s.CurrentVoters))
		}
		for _, id := range s.CurrentVoters {
			v0.CurrentVoters = append(v0.CurrentVoters, quorumVoterJSON{id})
		}
		v = v0
	case 1:
		v = quorumStateV1{
			LeaderID: s.LeaderID, LeaderEpoch: s.LeaderEpoch, VotedID: s.VotedID,
			VotedDirectoryID: s.VotedDirectoryID.String(), DataVersion: 1,
		}
	default:
		return dst, fmt.Errorf("%w: quorum-state data_version %d, known are 0 and 1", ErrUnsupportedVersion, s.DataVersion)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return dst, fmt.Errorf("encode quorum-state: %w", err)
	}
	return append(dst, b...), nil
}

// ParseQuorumState reads the file's content. Only the first line counts, as for
// Kafka; a missing field is an error, an unknown one is not.
func ParseQuorumState(b []byte) (QuorumState, error) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return QuorumState{}, fmt.Errorf("%w: quorum-state: %w", ErrMalformed, err)
	}
	var version *int16
	if err := json.Unmarshal(fields["data_version"], &version); err != nil || version == nil {
		return QuorumState{}, fmt.Errorf("%w: quorum-state has no data_version", ErrMalformed)
	}
	switch *version {
	case 0:
		return parseQuorumV0(line, fields)
	case 1:
		return parseQuorumV1(line, fields)
	}
	return QuorumState{}, fmt.Errorf("%w: quorum-state data_version %d, known are 0 and 1", ErrUnsupportedVersion, *version)
}

func parseQuorumV0(line []byte, fields map[string]json.RawMessage) (QuorumState, error) {
	var v quorumStateV0
	err := decodeStrict(line, &v, fields, "clusterId", "leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters")
	if err != nil {
		return QuorumState{}, err
	}
	s := QuorumState{
		ClusterID: v.ClusterID, LeaderID: v.LeaderID, LeaderEpoch: v.LeaderEpoch,
		VotedID: v.VotedID, AppliedOffset: v.AppliedOffset,
	}
	if v.CurrentVoters != nil {
		s.CurrentVoters = make([]int32, 0, len(v.CurrentVoters))
	}
	for _, voter := range v.CurrentVoters {
		s.CurrentVoters = append(s.CurrentVoters, voter.VoterID)
	}
	return s, nil
}

func parseQuorumV1(line []byte, fields map[string]json.RawMessage) (QuorumState, error) {
	var v quorumStateV1
	if err := decodeStrict(line, &v, fields, "leaderId", "leaderEpoch", "votedId", "votedDirectoryId"); err != nil {
		return QuorumState{}, err
	}
	dir, err := types.ParseUUID(v.VotedDirectoryID)
	if err != nil {
		return QuorumState{}, fmt.Errorf("%w: quorum-state votedDirectoryId: %w", ErrMalformed, err)
	}
	return QuorumState{
		DataVersion: 1, LeaderID: v.LeaderID, LeaderEpoch: v.LeaderEpoch,
		VotedID: v.VotedID, VotedDirectoryID: dir,
	}, nil
}

func decodeStrict(line []byte, into any, fields map[string]json.RawMessage, required ...string) error {
	for _, name := range required {
		if _, ok := fields[name]; !ok {
			return fmt.Errorf("%w: quorum-state has no %s", ErrMalformed, name)
		}
	}
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("%w: quorum-state: %w", ErrMalformed, err)
	}
	return nil
}
