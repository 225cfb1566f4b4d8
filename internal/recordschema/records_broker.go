package recordschema

import "github.com/tidemark-io/tidemark/internal/types"

// Values of BrokerRegistrationChangeRecord.Fenced and InControlledShutdown.
const (
	FencingUnfence            int8 = -1
	FencingUnchanged          int8 = 0
	FencingFence              int8 = 1
	ControlledShutdownNone    int8 = 0
	ControlledShutdownEntered int8 = 1
)

// NodeEndpoint is one listener of a broker or controller.
type NodeEndpoint struct {
	Name             string
	Host             string
	Port             uint16
	SecurityProtocol int16
	UnknownTags      []RawTag
}

// NodeFeature is the range of levels of one feature that a node supports.
type NodeFeature struct {
	Name                string
	MinSupportedVersion int16
	MaxSupportedVersion int16
	UnknownTags         []RawTag
}

// RegisterBrokerRecord registers a broker or re-registers one (v1 controlled
// shutdown, v2 ZK migration, v3 directories, v4 cordoned directories KIP-1066).
// CordonedLogDirs is nil until the broker says which it has.
type RegisterBrokerRecord struct {
	BrokerID             int32
	IsMigratingZkBroker  bool
	IncarnationID        types.UUID
	BrokerEpoch          int64
	EndPoints            []NodeEndpoint
	Features             []NodeFeature
	Rack                 *string
	Fenced               bool
	InControlledShutdown bool
	LogDirs              []types.UUID
	CordonedLogDirs      []types.UUID
	UnknownTags          []RawTag
}

// UnregisterBrokerRecord drops a registration.
type UnregisterBrokerRecord struct {
	BrokerID    int32
	BrokerEpoch int64
	UnknownTags []RawTag
}

// FenceBrokerRecord and UnfenceBrokerRecord are the old forms (before 3.3) of
// BrokerRegistrationChangeRecord.
type FenceBrokerRecord struct {
	ID          int32
	Epoch       int64
	UnknownTags []RawTag
}

// UnfenceBrokerRecord lets a broker lead (old form).
type UnfenceBrokerRecord struct {
	ID          int32
	Epoch       int64
	UnknownTags []RawTag
}

// BrokerRegistrationChangeRecord changes parts of a registration. Nil LogDirs or
// CordonedLogDirs keep what is there.
type BrokerRegistrationChangeRecord struct {
	BrokerID             int32
	BrokerEpoch          int64
	Fenced               int8
	InControlledShutdown int8
	LogDirs              []types.UUID
	CordonedLogDirs      []types.UUID
	UnknownTags          []RawTag
}

// RegisterControllerRecord registers a controller (KIP-919).
type RegisterControllerRecord struct {
	ControllerID     int32
	IncarnationID    types.UUID
	ZkMigrationReady bool
	EndPoints        []NodeEndpoint
	Features         []NodeFeature
	UnknownTags      []RawTag
}

func walkEndpoint(c *codec, e *NodeEndpoint) {
	c.string(&e.Name)
	c.string(&e.Host)
	c.uint16(&e.Port)
	c.int16(&e.SecurityProtocol)
	c.tags(&e.UnknownTags)
}

func walkFeature(c *codec, f *NodeFeature) {
	c.string(&f.Name)
	c.int16(&f.MinSupportedVersion)
	c.int16(&f.MaxSupportedVersion)
	c.tags(&f.UnknownTags)
}

func (r *RegisterBrokerRecord) walk(c *codec, version int16) {
	c.int32(&r.BrokerID)
	if version >= 2 {
		c.bool(&r.IsMigratingZkBroker)
	}
	c.uuid(&r.IncarnationID)
	c.int64(&r.BrokerEpoch)
	array(c, &r.EndPoints, false, walkEndpoint)
	array(c, &r.Features, false, walkFeature)
	c.nullableString(&r.Rack)
	c.bool(&r.Fenced)
	if version >= 1 {
		c.bool(&r.InControlledShutdown)
	}
	var known []tag
	if version >= 3 {
		known = append(known, tag{0, len(r.LogDirs) > 0, func() { c.uuids(&r.LogDirs, false) }})
	}
	if version >= 4 {
		known = append(known, tag{1, r.CordonedLogDirs != nil, func() { c.uuids(&r.CordonedLogDirs, true) }})
	}
	c.tags(&r.UnknownTags, known...)
}

func (r *UnregisterBrokerRecord) walk(c *codec, _ int16) {
	c.int32(&r.BrokerID)
	c.int64(&r.BrokerEpoch)
	c.tags(&r.UnknownTags)
}

func (r *FenceBrokerRecord) walk(c *codec, _ int16) {
	c.int32(&r.ID)
	c.int64(&r.Epoch)
	c.tags(&r.UnknownTags)
}

func (r *UnfenceBrokerRecord) walk(c *codec, _ int16) {
	c.int32(&r.ID)
	c.int64(&r.Epoch)
	c.tags(&r.UnknownTags)
}

func (r *BrokerRegistrationChangeRecord) walk(c *codec, version int16) {
	c.int32(&r.BrokerID)
	c.int64(&r.BrokerEpoch)
	known := []tag{{0, r.Fenced != FencingUnchanged, func() { c.int8(&r.Fenced) }}}
	if version >= 1 {
		known = append(known, tag{1, r.InControlledShutdown != ControlledShutdownNone, func() { c.int8(&r.InControlledShutdown) }})
	}
	if version >= 2 {
		known = append(known, tag{2, len(r.LogDirs) > 0, func() { c.uuids(&r.LogDirs, false) }})
	}
	if version >= 3 {
		known = append(known, tag{3, r.CordonedLogDirs != nil, func() { c.uuids(&r.CordonedLogDirs, true) }})
	}
	c.tags(&r.UnknownTags, known...)
}

func (r *RegisterControllerRecord) walk(c *codec, _ int16) {
	c.int32(&r.ControllerID)
	c.uuid(&r.IncarnationID)
	c.bool(&r.ZkMigrationReady)
	array(c, &r.EndPoints, false, walkEndpoint)
	array(c, &r.Features, false, walkFeature)
	c.tags(&r.UnknownTags)
}
