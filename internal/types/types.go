package types

import (
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// UUID is Kafka's 16-byte identifier (topic ids, directory ids, incarnation
// ids). It prints as unpadded base64url, as Kafka's Uuid.toString does.
type UUID [16]byte

// Reserved UUIDs (Uuid.java, DirectoryId.java in Apache Kafka 4.3).
var (
	// ZeroUUID means "none"; as a directory id it means MIGRATING.
	ZeroUUID = UUID{}
	// MetadataTopicID is the id of __cluster_metadata; as a directory id the
	// same bytes mean UNASSIGNED.
	MetadataTopicID = UUID{15: 1}
	// UnassignedDir says that a replica has no directory yet.
	UnassignedDir = UUID{15: 1}
	// LostDir says that the directory of a replica is gone.
	LostDir = UUID{15: 2}
)

// String returns the id as Kafka prints it: 22 characters of base64url.
func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// IsZero reports whether the id is all zero.
func (u UUID) IsZero() bool { return u == UUID{} }

// Reserved reports whether Kafka forbids u as a new id: the first hundred
// values are kept for special meanings (DirectoryId.java).
func (u UUID) Reserved() bool {
	for _, b := range u[:15] {
		if b != 0 {
			return false
		}
	}
	return u[15] < 100
}

// ParseUUID reads what String wrote. Padding is accepted, as Kafka does.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
	if err != nil || len(b) != len(u) {
		return u, fmt.Errorf("%q is not a Kafka UUID (16 bytes in base64url)", s)
	}
	copy(u[:], b)
	return u, nil
}

// NewUUID draws an id from random, a source of uniform bytes such as
// crypto/rand.Reader. Ids that are reserved or that would print with a leading
// "-" (which command lines take for a flag) are drawn again, as Kafka does.
func NewUUID(random io.Reader) (UUID, error) {
	for range 100 {
		var u UUID
		if _, err := io.ReadFull(random, u[:]); err != nil {
			return UUID{}, fmt.Errorf("draw a UUID: %w", err)
		}
		u[6] = u[6]&0x0f | 0x40 // RFC 4122 version 4, as java.util.UUID.randomUUID
		u[8] = u[8]&0x3f | 0x80
		if !u.Reserved() && u.String()[0] != '-' {
			return u, nil
		}
	}
	return UUID{}, fmt.Errorf("draw a UUID: the random source repeats itself")
}

// TopicPartition names a partition by topic name.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns "topic-partition", which is also the folder name on disk.
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}

// TopicIDPartition names a partition by topic id; Topic is its name where known.
type TopicIDPartition struct {
	TopicID   UUID
	Topic     string
	Partition int32
}

// TopicPartition drops the id.
func (t TopicIDPartition) TopicPartition() TopicPartition {
	return TopicPartition{Topic: t.Topic, Partition: t.Partition}
}

// Endpoint is one advertised listener of a node.
type Endpoint struct {
	Listener         string // listener name, for example PLAINTEXT
	SecurityProtocol int16  // 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL
	Host             string
	Port             int32
}

// Names of Kafka's internal topics.
const (
	ConsumerOffsetsTopic  = "__consumer_offsets"
	TransactionStateTopic = "__transaction_state"
	ShareGroupStateTopic  = "__share_group_state"
	ClusterMetadataTopic  = "__cluster_metadata"
)

// IsInternalTopic reports whether clients must not write the topic directly
// (Topic.java in Apache Kafka 4.3).
func IsInternalTopic(name string) bool {
	switch name {
	case ConsumerOffsetsTopic, TransactionStateTopic, ShareGroupStateTopic:
		return true
	}
	return false
}

// ValidTopicName reports whether Kafka accepts name for a topic: 1 to 249
// characters of [a-zA-Z0-9._-], and neither "." nor ".." (Topic.validate).
func ValidTopicName(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > 249 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}
