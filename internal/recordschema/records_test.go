package recordschema

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-io/tidemark/internal/types"
)

// TestKeysKafka43 pins the table of kafka-surface: keys, newest versions, names.
func TestKeysKafka43(t *testing.T) {
	want := map[int16]int16{
		0: 4, 1: 0, 2: 0, 3: 2, 4: 0, 5: 2, 7: 0, 8: 0, 9: 0, 10: 0, 11: 0, 12: 0, 14: 0, 15: 0, 17: 3,
		18: 0, 19: 0, 20: 0, 21: 0, 22: 0, 23: 0, 24: 0, 25: 0, 26: 0, 27: 0, 28: 0,
	}
	got := map[int16]int16{}
	for _, k := range Keys() {
		got[k] = NewestVersion(k)
		if r := newRecord(uint32(k)); r.Key() != k || !strings.HasSuffix(Name(r), "_RECORD") {
			t.Errorf("key %d makes %T with key %d and name %q", k, r, r.Key(), Name(r))
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("keys and versions (-want +got):\n%s", d)
	}
}

func ptr(s string) *string { return &s }

var (
	u1 = types.UUID{1: 1, 15: 9}
	u2 = types.UUID{1: 2, 15: 9}
)

// full has a value other than the default in every field.
func full() []MetadataRecord {
	endpoints := []NodeEndpoint{{Name: "L", Host: "h", Port: 65535, SecurityProtocol: 3, UnknownTags: []RawTag{{7, []byte("x")}}}}
	features := []NodeFeature{{Name: "f", MinSupportedVersion: 1, MaxSupportedVersion: 2}}
	tags := []RawTag{{99, []byte("later")}}
	return []MetadataRecord{
		&RegisterBrokerRecord{
			BrokerID: 1, IsMigratingZkBroker: true, IncarnationID: u1, BrokerEpoch: 5, EndPoints: endpoints, Features: features,
			Rack: ptr("r"), InControlledShutdown: true, LogDirs: []types.UUID{u1, u2}, CordonedLogDirs: []types.UUID{}, UnknownTags: tags,
		},
		&UnregisterBrokerRecord{BrokerID: 1, BrokerEpoch: 2, UnknownTags: tags},
		&TopicRecord{Name: "t", TopicID: u1, UnknownTags: tags},
		&PartitionRecord{
			PartitionID: 1, TopicID: u1, Replicas: []int32{1, 2}, ISR: []int32{1}, RemovingReplicas: []int32{2}, AddingReplicas: []int32{3},
			Leader: 1, LeaderRecoveryState: 1, LeaderEpoch: 3, PartitionEpoch: 4, Directories: []types.UUID{u1, u2},
			EligibleLeaderReplicas: []int32{2}, LastKnownElr: []int32{}, UnknownTags: tags,
		},
		&ConfigRecord{ResourceType: 2, ResourceName: "t", Name: "k", Value: ptr(""), UnknownTags: tags},
		&PartitionChangeRecord{
			PartitionID: 1, TopicID: u1, ISR: []int32{}, Leader: -1, Replicas: []int32{1}, RemovingReplicas: []int32{}, AddingReplicas: []int32{2},
			LeaderRecoveryState: 0, EligibleLeaderReplicas: []int32{1}, LastKnownElr: []int32{}, Directories: []types.UUID{u1}, UnknownTags: tags,
		},
		&FenceBrokerRecord{ID: 1, Epoch: 2, UnknownTags: tags},
		&UnfenceBrokerRecord{ID: 1, Epoch: 2, UnknownTags: tags},
		&RemoveTopicRecord{TopicID: u1, UnknownTags: tags},
		&DelegationTokenRecord{Owner: "o", Requester: "r", Renewers: []string{"a", "b"}, IssueTimestamp: 1, MaxTimestamp: 2, ExpirationTimestamp: 3, TokenID: "i", UnknownTags: tags},
		&UserScramCredentialRecord{Name: "n", Mechanism: 1, Salt: []byte{1}, StoredKey: []byte{2}, ServerKey: []byte{3}, Iterations: 4096, UnknownTags: tags},
		&FeatureLevelRecord{Name: "f", FeatureLevel: 30, UnknownTags: tags},
		&ClientQuotaRecord{Entity: []QuotaEntity{{EntityType: "user", EntityName: ptr("u")}, {EntityType: "client-id"}}, QuotaKey: "k", Value: 1.5, Remove: true, UnknownTags: tags},
		&ProducerIdsRecord{BrokerID: 1, BrokerEpoch: 2, NextProducerID: 3, UnknownTags: tags},
		&BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: 2, Fenced: -1, InControlledShutdown: 1, LogDirs: []types.UUID{u1}, CordonedLogDirs: []types.UUID{}, UnknownTags: tags},
		&AccessControlEntryRecord{ID: u1, ResourceType: 2, ResourceName: "r", PatternType: 3, Principal: "p", Host: "*", Operation: 4, PermissionType: 3, UnknownTags: tags},
		&RemoveAccessControlEntryRecord{ID: u1, UnknownTags: tags},
		&NoOpRecord{UnknownTags: tags},
		&ZkMigrationStateRecord{ZkMigrationState: 3, UnknownTags: tags},
		&RemoveUserScramCredentialRecord{Name: "n", Mechanism: 2, UnknownTags: tags},
		&BeginTransactionRecord{Name: ptr("n"), UnknownTags: tags},
		&EndTransactionRecord{UnknownTags: tags},
		&AbortTransactionRecord{Reason: ptr("n"), UnknownTags: tags},
		&RemoveDelegationTokenRecord{TokenID: "i", UnknownTags: tags},
		&RegisterControllerRecord{ControllerID: 1, IncarnationID: u1, ZkMigrationReady: true, EndPoints: endpoints, Features: features, UnknownTags: tags},
		&ClearElrRecord{TopicName: "t", UnknownTags: tags},
	}
}

// TestRoundTrip: every record with every field set comes back as it was, with
// null and empty kept apart and unknown tags kept.
func TestRoundTrip(t *testing.T) {
	seen := map[int16]bool{}
	for _, want := range full() {
		seen[want.Key()] = true
		got, err := ParseFrame(AppendFrame(nil, want))
		if err != nil {
			t.Errorf("%s: %v", Name(want), err)
			continue
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", Name(want), d)
		}
	}
	for _, k := range Keys() {
		if !seen[k] {
			t.Errorf("no full record for key %d", k)
		}
	}
}

// TestOldVersions: fields that a version lacks read as their defaults.
func TestOldVersions(t *testing.T) {
	for _, want := range full() {
		for v := range NewestVersion(want.Key()) {
			b, err := AppendFrameVersion(nil, want, v)
			if err != nil {
				t.Fatal(err)
			}
			got, version, err := ParseFrameVersion(b)
			if err != nil || version != v {
				t.Fatalf("%s version %d: read version %d, %v", Name(want), v, version, err)
			}
			checkOld(t, v, got)
		}
	}
}

func checkOld(t *testing.T, v int16, r MetadataRecord) {
	t.Helper()
	bad := false
	switch r := r.(type) {
	case *PartitionRecord:
		bad = (r.Directories == nil) != (v < 1) || r.EligibleLeaderReplicas != nil || r.LastKnownElr != nil
	case *PartitionChangeRecord:
		bad = (r.Directories == nil) != (v < 1) || r.EligibleLeaderReplicas != nil || r.LastKnownElr != nil
	case *RegisterBrokerRecord:
		bad = r.InControlledShutdown != (v >= 1) || r.IsMigratingZkBroker != (v >= 2) || (r.LogDirs == nil) != (v < 3) || r.CordonedLogDirs != nil
	case *BrokerRegistrationChangeRecord:
		bad = (r.InControlledShutdown != 0) != (v >= 1) || (r.LogDirs == nil) != (v < 2) || r.CordonedLogDirs != nil
	}
	if bad {
		t.Errorf("%s version %d read as %+v", Name(r), v, r)
	}
}

func TestPartitionChangeDefaults(t *testing.T) {
	got, err := ParseFrame(AppendFrame(nil, NewPartitionChange()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(NewPartitionChange(), got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestErrorsNameTheRecord(t *testing.T) {
	whole := AppendFrame(nil, &TopicRecord{Name: "topic", TopicID: u1})
	for _, c := range []struct {
		name  string
		in    []byte
		is    error
		words string
	}{
		{"empty", nil, ErrMalformed, "frame"},
		{"frame version", []byte{0, 2, 0}, ErrUnsupportedVersion, "frame version 0"},
		{"unknown key", []byte{1, 6, 0}, ErrUnknownRecord, "key 6 (version 0)"},
		{"key of 4.4", []byte{1, 29, 0}, ErrUnknownRecord, "key 29"},
		{"unknown version", []byte{1, 2, 1}, ErrUnsupportedVersion, "TOPIC_RECORD (key 2) has versions 0-0, not 1"},
		{"cut", whole[:len(whole)-3], ErrMalformed, "TOPIC_RECORD (key 2) version 0"},
		{"left over", append(whole[:len(whole):len(whole)], 0), ErrMalformed, "1 bytes left over"},
		{"null name", []byte{1, 2, 0, 0}, ErrMalformed, "null"},
		{"huge name", []byte{1, 2, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, ErrMalformed, "claims"},
		{"varint too long", []byte{1, 2, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, ErrMalformed, "varint"},
		{"tags out of order", []byte{1, 20, 0, 2, 5, 0, 5, 0}, ErrMalformed, "follows"},
		{"too many tags", []byte{1, 20, 0, 0xff, 0xff, 0x7f}, ErrMalformed, "at most"},
	} {
		_, err := ParseFrame(c.in)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %v with %q", c.name, err, c.is, c.words)
		}
	}
}

func TestControlErrors(t *testing.T) {
	for _, c := range []struct {
		key, value []byte
		is         error
	}{
		{[]byte{0, 0, 0}, nil, ErrMalformed},
		{AppendControlKey(nil, ControlCommit), []byte{0, 0}, ErrUnknownRecord},
		{AppendControlKey(nil, ControlSnapshotFooter), []byte{0}, ErrMalformed},
		{AppendControlKey(nil, ControlSnapshotFooter), []byte{0, 1, 0}, ErrUnsupportedVersion},
		{AppendControlKey(nil, ControlSnapshotFooter), []byte{0, 0, 0, 0}, ErrMalformed},
	} {
		if _, err := ParseControlRecord(c.key, c.value); !errors.Is(err, c.is) {
			t.Errorf("%x %x: %v, want %v", c.key, c.value, err, c.is)
		}
	}
}

func TestLeaderChangeVersion0(t *testing.T) {
	want := &LeaderChangeMessage{LeaderID: 3, Voters: []LeaderChangeVoter{{VoterID: 1}, {VoterID: 3}}, GrantingVoters: []LeaderChangeVoter{{VoterID: 3}}}
	got, err := ParseControlRecord(AppendControlKey(nil, ControlLeaderChange), AppendControlValue(nil, want))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestQuorumStateVersions(t *testing.T) {
	for _, c := range []struct {
		state QuorumState
		text  string
	}{
		{
			QuorumState{ClusterID: "c", LeaderID: 1, LeaderEpoch: 2, VotedID: -1, CurrentVoters: []int32{1, 2}},
			`{"clusterId":"c","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}`,
		},
		{
			QuorumState{LeaderID: -1, LeaderEpoch: 0, VotedID: -1},
			`{"clusterId":"","leaderId":-1,"leaderEpoch":0,"votedId":-1,"appliedOffset":0,"currentVoters":null,"data_version":0}`,
		},
		{
			QuorumState{DataVersion: 1, LeaderID: -1, LeaderEpoch: 2, VotedID: 1, VotedDirectoryID: u1},
			`{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"` + u1.String() + `","data_version":1}`,
		},
	} {
		b, err := AppendQuorumState(nil, c.state)
		if err != nil || string(b) != c.text {
			t.Errorf("wrote %s (%v), want %s", b, err, c.text)
		}
		got, err := ParseQuorumState([]byte(c.text + "\nignored"))
		if err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(c.state, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.text, d)
		}
	}
	for _, bad := range []string{
		"", "x", "[]", "{}", `{"data_version":2}`, `{"data_version":1}`, `{"data_version":0}`, `{"data_version":null}`,
		`{"leaderId":1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"short","data_version":1}`,
		`{"leaderId":"1","leaderEpoch":1,"votedId":1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}`,
	} {
		if _, err := ParseQuorumState([]byte(bad)); !known(err) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := AppendQuorumState(nil, QuorumState{DataVersion: 3}); !errors.Is(err, ErrUnsupportedVersion) {
		t.Errorf("version 3: %v", err)
	}
}
