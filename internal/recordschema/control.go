package recordschema

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark-io/tidemark/internal/types"
)

// ControlType is the type in a control record's key (ControlRecordType).
type ControlType int16

// Control record types. Abort and Commit are transaction markers.
const (
	ControlAbort          ControlType = 0
	ControlCommit         ControlType = 1
	ControlLeaderChange   ControlType = 2
	ControlSnapshotHeader ControlType = 3
	ControlSnapshotFooter ControlType = 4
	ControlKRaftVersion   ControlType = 5
	ControlKRaftVoters    ControlType = 6
)

// ControlRecord is the value of a raft control record. Every one starts with a
// Version field of its own, which the methods fill and check.
type ControlRecord interface {
	// Type is what the record's key says.
	Type() ControlType

	walkControl(c *codec, version int16)
	newestControl() int16
	writeVersion() int16
}

// LeaderChangeVoter is one voter in a LeaderChangeMessage.
type LeaderChangeVoter struct {
	VoterID          int32
	VoterDirectoryID types.UUID // v1 (KIP-853)
	UnknownTags      []RawTag
}

// LeaderChangeMessage is the first record of every leader epoch. Version is 0
// with a static voter set, 1 with a dynamic one (kraft.version 1).
type LeaderChangeMessage struct {
	Version        int16
	LeaderID       int32
	Voters         []LeaderChangeVoter
	GrantingVoters []LeaderChangeVoter
	UnknownTags    []RawTag
}

// SnapshotHeaderRecord starts a snapshot.
type SnapshotHeaderRecord struct {
	LastContainedLogTimestamp int64
	UnknownTags               []RawTag
}

// SnapshotFooterRecord ends a snapshot.
type SnapshotFooterRecord struct{ UnknownTags []RawTag }

// KRaftVersionRecord finalizes kraft.version.
type KRaftVersionRecord struct {
	KRaftVersion int16
	UnknownTags  []RawTag
}

// VoterEndpoint is one controller listener of a voter.
type VoterEndpoint struct {
	Name        string
	Host        string
	Port        uint16
	UnknownTags []RawTag
}

// KRaftVersionRange is what a voter supports of kraft.version.
type KRaftVersionRange struct {
	MinSupportedVersion int16
	MaxSupportedVersion int16
	UnknownTags         []RawTag
}

// Voter is one member of the quorum.
type Voter struct {
	VoterID             int32
	VoterDirectoryID    types.UUID
	Endpoints           []VoterEndpoint
	KRaftVersionFeature KRaftVersionRange
	UnknownTags         []RawTag
}

// VotersRecord is the voter set (KIP-853).
type VotersRecord struct {
	Voters      []Voter
	UnknownTags []RawTag
}

// Type implements ControlRecord.
func (*LeaderChangeMessage) Type() ControlType { return ControlLeaderChange }

// Type implements ControlRecord.
func (*SnapshotHeaderRecord) Type() ControlType { return ControlSnapshotHeader }

// Type implements ControlRecord.
func (*SnapshotFooterRecord) Type() ControlType { return ControlSnapshotFooter }

// Type implements ControlRecord.
func (*KRaftVersionRecord) Type() ControlType { return ControlKRaftVersion }

// Type implements ControlRecord.
func (*VotersRecord) Type() ControlType { return ControlKRaftVoters }

func (*LeaderChangeMessage) newestControl() int16  { return 1 }
func (*SnapshotHeaderRecord) newestControl() int16 { return 0 }
func (*SnapshotFooterRecord) newestControl() int16 { return 0 }
func (*KRaftVersionRecord) newestControl() int16   { return 0 }
func (*VotersRecord) newestControl() int16         { return 0 }

func (r *LeaderChangeMessage) writeVersion() int16 { return r.Version }
func (*SnapshotHeaderRecord) writeVersion() int16  { return 0 }
func (*SnapshotFooterRecord) writeVersion() int16  { return 0 }
func (*KRaftVersionRecord) writeVersion() int16    { return 0 }
func (*VotersRecord) writeVersion() int16          { return 0 }

func (r *LeaderChangeMessage) walkControl(c *codec, version int16) {
	r.Version = version
	voter := func(c *codec, v *LeaderChangeVoter) {
		c.int32(&v.VoterID)
		if version >= 1 {
			c.uuid(&v.VoterDirectoryID)
		}
		c.tags(&v.UnknownTags)
	}
	c.int32(&r.LeaderID)
	array(c, &r.Voters, false, voter)
	array(c, &r.GrantingVoters, false, voter)
	c.tags(&r.UnknownTags)
}

func (r *SnapshotHeaderRecord) walkControl(c *codec, _ int16) {
	c.int64(&r.LastContainedLogTimestamp)
	c.tags(&r.UnknownTags)
}

func (r *SnapshotFooterRecord) walkControl(c *codec, _ int16) { c.tags(&r.UnknownTags) }

func (r *KRaftVersionRecord) walkControl(c *codec, _ int16) {
	c.int16(&r.KRaftVersion)
	c.tags(&r.UnknownTags)
}

func (r *VotersRecord) walkControl(c *codec, _ int16) {
	array(c, &r.Voters, false, walkVoter)
	c.tags(&r.UnknownTags)
}

func walkVoter(c *codec, v *Voter) {
	c.int32(&v.VoterID)
	c.uuid(&v.VoterDirectoryID)
	array(c, &v.Endpoints, false, func(c *codec, e *VoterEndpoint) {
		c.string(&e.Name)
		c.string(&e.Host)
		c.uint16(&e.Port)
		c.tags(&e.UnknownTags)
	})
	c.int16(&v.KRaftVersionFeature.MinSupportedVersion)
	c.int16(&v.KRaftVersionFeature.MaxSupportedVersion)
	c.tags(&v.KRaftVersionFeature.UnknownTags)
	c.tags(&v.UnknownTags)
}

// AppendControlKey appends a control record's key: version 0 and the type, four
// bytes in all.
func AppendControlKey(dst []byte, t ControlType) []byte {
	return binary.BigEndian.AppendUint16(append(dst, 0, 0), uint16(t))
}

// ParseControlKey reads a control record's key. Newer key versions may be
// longer; what follows the type is ignored, as Kafka does.
func ParseControlKey(key []byte) (ControlType, error) {
	if len(key) < 4 {
		return 0, fmt.Errorf("%w: control record key of %d bytes, want 4", ErrMalformed, len(key))
	}
	if v := int16(binary.BigEndian.Uint16(key)); v < 0 {
		return 0, fmt.Errorf("%w: control record key version %d", ErrMalformed, v)
	}
	return ControlType(binary.BigEndian.Uint16(key[2:])), nil
}

// AppendControlValue appends the value of a control record.
func AppendControlValue(dst []byte, r ControlRecord) []byte {
	c := codec{buf: dst}
	version := r.writeVersion()
	c.int16(&version)
	r.walkControl(&c, version)
	return c.buf
}

// ParseControlRecord reads a raft control record from its key and value.
// Transaction markers (types 0 and 1) are not raft's: ErrUnknownRecord.
func ParseControlRecord(key, value []byte) (ControlRecord, error) {
	t, err := ParseControlKey(key)
	if err != nil {
		return nil, err
	}
	r := newControl(t)
	if r == nil {
		return nil, fmt.Errorf("%w: control record type %d", ErrUnknownRecord, t)
	}
	c := codec{buf: value, decode: true}
	var version int16
	c.int16(&version)
	if c.err == nil && (version < 0 || version > r.newestControl()) {
		return nil, fmt.Errorf("%w: control record type %d has versions 0-%d, not %d",
			ErrUnsupportedVersion, t, r.newestControl(), version)
	}
	r.walkControl(&c, version)
	if c.err == nil && len(c.buf) != 0 {
		c.fail("%d bytes left over", len(c.buf))
	}
	if c.err != nil {
		return nil, fmt.Errorf("control record type %d: %w", t, c.err)
	}
	return r, nil
}

func newControl(t ControlType) ControlRecord {
	switch t {
	case ControlLeaderChange:
		return &LeaderChangeMessage{}
	case ControlSnapshotHeader:
		return &SnapshotHeaderRecord{}
	case ControlSnapshotFooter:
		return &SnapshotFooterRecord{}
	case ControlKRaftVersion:
		return &KRaftVersionRecord{}
	case ControlKRaftVoters:
		return &VotersRecord{}
	}
	return nil
}
