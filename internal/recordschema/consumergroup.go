package recordschema

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark-io/tidemark/internal/types"
)

// Types of the records of a consumer group in __consumer_offsets (KIP-848): the
// first two bytes of the key.
const (
	ConsumerGroupMetadataType          int16 = 3
	ConsumerGroupPartitionMetadataType int16 = 4 // not written since 4.1
	ConsumerGroupMemberMetadataType    int16 = 5
	ConsumerGroupTargetMetadataType    int16 = 6
	ConsumerGroupTargetMemberType      int16 = 7
	ConsumerGroupCurrentMemberType     int16 = 8
	ConsumerGroupRegularExpressionType int16 = 16
)

// ConsumerGroupKey is the key of a record of a consumer group. Name is the
// member id, or the regular expression, of the types that have one.
type ConsumerGroupKey struct {
	Type  int16
	Group string
	Name  string
}

// named reports whether keys of a type have a second part.
func named(recordType int16) bool {
	switch recordType {
	case ConsumerGroupMemberMetadataType, ConsumerGroupTargetMemberType, ConsumerGroupCurrentMemberType, ConsumerGroupRegularExpressionType:
		return true
	}
	return false
}

// Append encodes the key.
func (k ConsumerGroupKey) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(k.Type))
	dst = appendShortString(dst, k.Group)
	if named(k.Type) {
		dst = appendShortString(dst, k.Name)
	}
	return dst
}

func appendShortString(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

// ParseConsumerGroupKey decodes the key of a record of a consumer group.
func ParseConsumerGroupKey(b []byte) (ConsumerGroupKey, error) {
	c := codec{buf: b, decode: true}
	var k ConsumerGroupKey
	c.int16(&k.Type)
	k.Group = c.shortString()
	if named(k.Type) {
		k.Name = c.shortString()
	}
	if c.err == nil && len(c.buf) > 0 {
		c.fail("%d bytes left over after the key", len(c.buf))
	}
	return k, c.err
}

func (c *codec) shortString() string {
	b := c.take(2)
	if b == nil {
		return ""
	}
	return string(c.take(int(int16(binary.BigEndian.Uint16(b)))))
}

// ConsumerGroupValue is the value of a record of a consumer group.
type ConsumerGroupValue interface{ walk(c *codec) }

// AppendConsumerGroupValue encodes a value in version 0, the only one so far.
func AppendConsumerGroupValue(dst []byte, v ConsumerGroupValue) []byte {
	c := codec{buf: append(dst, 0, 0)}
	v.walk(&c)
	return c.buf
}

// ParseConsumerGroupValue decodes a value into v.
func ParseConsumerGroupValue(b []byte, v ConsumerGroupValue) error {
	c := codec{buf: b, decode: true}
	var version int16
	if c.int16(&version); c.err == nil && version != 0 {
		return fmt.Errorf("%w: %T version %d", ErrUnsupportedVersion, v, version)
	}
	v.walk(&c)
	if c.err == nil && len(c.buf) > 0 {
		c.fail("%d bytes left over after %T", len(c.buf), v)
	}
	return c.err
}

// ConsumerGroupMetadataValue is a group's epoch and the hash of the metadata
// that its assignment is made for (KIP-1101; 0: not known).
type ConsumerGroupMetadataValue struct {
	Epoch        int32
	MetadataHash int64
	UnknownTags  []RawTag
}

func (v *ConsumerGroupMetadataValue) walk(c *codec) {
	c.int32(&v.Epoch)
	c.tags(&v.UnknownTags, tag{0, v.MetadataHash != 0, func() { c.int64(&v.MetadataHash) }})
}

// ConsumerGroupMemberMetadataValue is what a member says of itself.
type ConsumerGroupMemberMetadataValue struct {
	InstanceID           *string
	RackID               *string
	ClientID             string
	ClientHost           string
	SubscribedTopicNames []string
	SubscribedTopicRegex *string
	RebalanceTimeoutMs   int32
	ServerAssignor       *string
	// Classic is set for a member that speaks the classic protocol.
	Classic     *ConsumerGroupClassicMember
	UnknownTags []RawTag
}

// ConsumerGroupClassicMember is what a classic member said in JoinGroup.
type ConsumerGroupClassicMember struct {
	SessionTimeoutMs   int32
	SupportedProtocols []ConsumerGroupClassicProtocol
	UnknownTags        []RawTag
}

// ConsumerGroupClassicProtocol is one protocol of a classic member.
type ConsumerGroupClassicProtocol struct {
	Name        string
	Metadata    []byte
	UnknownTags []RawTag
}

func (v *ConsumerGroupMemberMetadataValue) walk(c *codec) {
	c.nullableString(&v.InstanceID)
	c.nullableString(&v.RackID)
	c.string(&v.ClientID)
	c.string(&v.ClientHost)
	c.strings(&v.SubscribedTopicNames, false)
	c.nullableString(&v.SubscribedTopicRegex)
	c.int32(&v.RebalanceTimeoutMs)
	c.nullableString(&v.ServerAssignor)
	c.tags(&v.UnknownTags, tag{0, true, func() { v.walkClassic(c) }})
}

// walkClassic handles a nullable structure in a tag: a marker comes before it.
// Kafka writes the tag for null, too, though that is its default.
func (v *ConsumerGroupMemberMetadataValue) walkClassic(c *codec) {
	if !c.decode {
		if v.Classic == nil {
			c.writeUvarint(0)
			return
		}
		c.writeUvarint(1)
	} else if c.readUvarint() == 0 {
		v.Classic = nil
		return
	} else {
		v.Classic = &ConsumerGroupClassicMember{}
	}
	m := v.Classic
	c.int32(&m.SessionTimeoutMs)
	array(c, &m.SupportedProtocols, false, func(c *codec, p *ConsumerGroupClassicProtocol) {
		c.string(&p.Name)
		c.bytes(&p.Metadata)
		c.tags(&p.UnknownTags)
	})
	c.tags(&m.UnknownTags)
}

// ConsumerGroupTargetMetadataValue says which epoch the target assignment is for.
type ConsumerGroupTargetMetadataValue struct {
	AssignmentEpoch int32
	// AssignmentTimestamp is when it was computed (KIP-1263); 0: not known.
	AssignmentTimestamp int64
	UnknownTags         []RawTag
}

func (v *ConsumerGroupTargetMetadataValue) walk(c *codec) {
	c.int32(&v.AssignmentEpoch)
	c.tags(&v.UnknownTags, tag{0, v.AssignmentTimestamp != 0, func() { c.int64(&v.AssignmentTimestamp) }})
}

// ConsumerGroupTopicPartitions is partitions of one topic. AssignmentEpochs, in
// current assignments since 4.3 (KIP-1251), says for each in which epoch the
// member got it; nil: not known.
type ConsumerGroupTopicPartitions struct {
	TopicID          types.UUID
	Partitions       []int32
	AssignmentEpochs []int32
	UnknownTags      []RawTag
}

// ConsumerGroupTargetMemberValue is what one member is to get.
type ConsumerGroupTargetMemberValue struct {
	TopicPartitions []ConsumerGroupTopicPartitions
	UnknownTags     []RawTag
}

func (v *ConsumerGroupTargetMemberValue) walk(c *codec) {
	array(c, &v.TopicPartitions, false, func(c *codec, t *ConsumerGroupTopicPartitions) {
		c.uuid(&t.TopicID)
		c.int32s(&t.Partitions, false)
		c.tags(&t.UnknownTags)
	})
	c.tags(&v.UnknownTags)
}

// ConsumerGroupCurrentMemberValue is where one member stands.
type ConsumerGroupCurrentMemberValue struct {
	MemberEpoch         int32
	PreviousMemberEpoch int32
	State               int8
	Assigned            []ConsumerGroupTopicPartitions
	PendingRevocation   []ConsumerGroupTopicPartitions
	UnknownTags         []RawTag
}

func (v *ConsumerGroupCurrentMemberValue) walk(c *codec) {
	c.int32(&v.MemberEpoch)
	c.int32(&v.PreviousMemberEpoch)
	c.int8(&v.State)
	array(c, &v.Assigned, false, walkCurrentPartitions)
	array(c, &v.PendingRevocation, false, walkCurrentPartitions)
	c.tags(&v.UnknownTags)
}

func walkCurrentPartitions(c *codec, t *ConsumerGroupTopicPartitions) {
	c.uuid(&t.TopicID)
	c.int32s(&t.Partitions, false)
	c.tags(&t.UnknownTags, tag{0, t.AssignmentEpochs != nil, func() { c.int32s(&t.AssignmentEpochs, true) }})
	if c.decode && t.AssignmentEpochs != nil && len(t.AssignmentEpochs) != len(t.Partitions) {
		c.fail("%d assignment epochs for %d partitions", len(t.AssignmentEpochs), len(t.Partitions))
	}
}

// ConsumerGroupRegularExpressionValue is the topics that a regular expression
// matched, in which version of the metadata and when.
type ConsumerGroupRegularExpressionValue struct {
	Topics      []string
	Version     int64
	Timestamp   int64
	UnknownTags []RawTag
}

func (v *ConsumerGroupRegularExpressionValue) walk(c *codec) {
	c.strings(&v.Topics, false)
	c.int64(&v.Version)
	c.int64(&v.Timestamp)
	c.tags(&v.UnknownTags)
}
