package quorum

import (
	"hash/crc32"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// kraftVersion is the finalized kraft.version of folders that Format makes.
const kraftVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// raftID maps a replica key (KIP-853) to a raft id: the node id in the upper
// half, a checksum of the directory id in the lower. A node that lost its disk
// gets a new directory id and so never votes twice under one raft id.
func raftID(nodeID int32, dir types.UUID) uint64 {
	return (uint64(uint32(nodeID))+1)<<32 | uint64(crc32.Checksum(dir[:], castagnoli))
}

func (v Voter) raftID() uint64 { return raftID(v.NodeID, v.DirectoryID) }

// voterSet is the membership that is in force: the last one in the log or the
// newest snapshot, committed or not.
type voterSet struct {
	voters  []Voter
	version int16 // kraft.version
	// inLog: a VotersRecord is in the log or a real snapshot, not only in the
	// bootstrap snapshot (LeaderState.offsetOfVotersAtEpochStart).
	inLog bool
}

func (s *voterSet) confState() *raftpb.ConfState {
	cs := &raftpb.ConfState{}
	for _, v := range s.voters {
		cs.Voters = append(cs.Voters, v.raftID())
	}
	return raftpb.EnsureConfState(cs)
}

func (s *voterSet) byRaftID(id uint64) (Voter, bool) {
	for _, v := range s.voters {
		if v.raftID() == id {
			return v, true
		}
	}
	return Voter{}, false
}

// apply takes over what a control batch says about the membership.
func (s *voterSet) apply(records []recordschema.ControlRecord, inLog bool) {
	for _, r := range records {
		switch r := r.(type) {
		case *recordschema.KRaftVersionRecord:
			s.version = r.KRaftVersion
		case *recordschema.VotersRecord:
			s.voters = votersFrom(r)
			s.inLog = inLog
		}
	}
}

func votersFrom(r *recordschema.VotersRecord) []Voter {
	out := make([]Voter, 0, len(r.Voters))
	for _, v := range r.Voters {
		w := Voter{NodeID: v.VoterID, DirectoryID: v.VoterDirectoryID}
		for _, e := range v.Endpoints {
			w.Endpoints = append(w.Endpoints, types.Endpoint{Listener: e.Name, Host: e.Host, Port: int32(e.Port)})
		}
		out = append(out, w)
	}
	return out
}

func votersRecord(voters []Voter) *recordschema.VotersRecord {
	r := &recordschema.VotersRecord{}
	for _, v := range voters {
		w := recordschema.Voter{
			VoterID: v.NodeID, VoterDirectoryID: v.DirectoryID,
			KRaftVersionFeature: recordschema.KRaftVersionRange{MaxSupportedVersion: kraftVersion},
		}
		for _, e := range v.Endpoints {
			w.Endpoints = append(w.Endpoints, recordschema.VoterEndpoint{Name: e.Listener, Host: e.Host, Port: uint16(e.Port)})
		}
		r.Voters = append(r.Voters, w)
	}
	return r
}

// withEndpoints returns the voters with one node's endpoints replaced, and
// whether that changed anything (VoterSet.updateVoter).
func withEndpoints(voters []Voter, id uint64, endpoints []types.Endpoint) ([]Voter, bool) {
	if endpoints == nil {
		return voters, false
	}
	out := slices.Clone(voters)
	for i, v := range out {
		if v.raftID() != id {
			continue
		}
		same := slices.EqualFunc(v.Endpoints, endpoints, func(a, b types.Endpoint) bool {
			return a.Listener == b.Listener && a.Host == b.Host && a.Port == b.Port
		})
		out[i].Endpoints = endpoints
		return out, !same
	}
	return out, false
}

func leaderChangeVoters(voters []Voter) []recordschema.LeaderChangeVoter {
	out := make([]recordschema.LeaderChangeVoter, 0, len(voters))
	for _, v := range voters {
		out = append(out, recordschema.LeaderChangeVoter{VoterID: v.NodeID, VoterDirectoryID: v.DirectoryID})
	}
	return out
}
