package recordschema

import "github.com/tidemark-io/tidemark/internal/types"

// ConfigRecord sets one key of one resource; a nil Value removes it.
type ConfigRecord struct {
	ResourceType int8
	ResourceName string
	Name         string
	Value        *string
	UnknownTags  []RawTag
}

// FeatureLevelRecord finalizes a feature; level 0 removes it. It never goes
// beyond version 0: it is what a reader looks at first.
type FeatureLevelRecord struct {
	Name         string
	FeatureLevel int16
	UnknownTags  []RawTag
}

// ProducerIdsRecord says which producer id block comes next.
type ProducerIdsRecord struct {
	BrokerID       int32
	BrokerEpoch    int64
	NextProducerID int64
	UnknownTags    []RawTag
}

// NoOpRecord shows that the quorum commits (KIP-835).
type NoOpRecord struct{ UnknownTags []RawTag }

// ZkMigrationStateRecord is a legacy of the move away from ZooKeeper.
type ZkMigrationStateRecord struct {
	ZkMigrationState int8
	UnknownTags      []RawTag
}

// BeginTransactionRecord begins a change that spans several batches, which an
// EndTransactionRecord or AbortTransactionRecord ends (KIP-868).
type BeginTransactionRecord struct {
	Name        *string
	UnknownTags []RawTag
}

// EndTransactionRecord applies what came since the begin record.
type EndTransactionRecord struct{ UnknownTags []RawTag }

// AbortTransactionRecord drops what came since the begin record.
type AbortTransactionRecord struct {
	Reason      *string
	UnknownTags []RawTag
}

func (r *ConfigRecord) walk(c *codec, _ int16) {
	c.int8(&r.ResourceType)
	c.string(&r.ResourceName)
	c.string(&r.Name)
	c.nullableString(&r.Value)
	c.tags(&r.UnknownTags)
}

func (r *FeatureLevelRecord) walk(c *codec, _ int16) {
	c.string(&r.Name)
	c.int16(&r.FeatureLevel)
	c.tags(&r.UnknownTags)
}

func (r *ProducerIdsRecord) walk(c *codec, _ int16) {
	c.int32(&r.BrokerID)
	c.int64(&r.BrokerEpoch)
	c.int64(&r.NextProducerID)
	c.tags(&r.UnknownTags)
}

func (r *NoOpRecord) walk(c *codec, _ int16) { c.tags(&r.UnknownTags) }

func (r *ZkMigrationStateRecord) walk(c *codec, _ int16) {
	c.int8(&r.ZkMigrationState)
	c.tags(&r.UnknownTags)
}

func (r *BeginTransactionRecord) walk(c *codec, _ int16) {
	c.tags(&r.UnknownTags, tag{0, r.Name != nil, func() { c.nullableString(&r.Name) }})
}

func (r *EndTransactionRecord) walk(c *codec, _ int16) { c.tags(&r.UnknownTags) }

func (r *AbortTransactionRecord) walk(c *codec, _ int16) {
	c.tags(&r.UnknownTags, tag{0, r.Reason != nil, func() { c.nullableString(&r.Reason) }})
}

// DelegationTokenRecord is one delegation token (KIP-48).
type DelegationTokenRecord struct {
	Owner               string
	Requester           string
	Renewers            []string
	IssueTimestamp      int64
	MaxTimestamp        int64
	ExpirationTimestamp int64
	TokenID             string
	UnknownTags         []RawTag
}

// RemoveDelegationTokenRecord removes a token.
type RemoveDelegationTokenRecord struct {
	TokenID     string
	UnknownTags []RawTag
}

// UserScramCredentialRecord holds what a server needs to check a SCRAM login.
// Mechanism is 1 for SCRAM-SHA-256, 2 for SCRAM-SHA-512.
type UserScramCredentialRecord struct {
	Name        string
	Mechanism   int8
	Salt        []byte
	StoredKey   []byte
	ServerKey   []byte
	Iterations  int32
	UnknownTags []RawTag
}

// RemoveUserScramCredentialRecord removes a credential.
type RemoveUserScramCredentialRecord struct {
	Name        string
	Mechanism   int8
	UnknownTags []RawTag
}

// QuotaEntity is one part of a quota's entity; a nil EntityName is the default.
type QuotaEntity struct {
	EntityType  string
	EntityName  *string
	UnknownTags []RawTag
}

// ClientQuotaRecord sets or removes one quota value. QuotaKey is Kafka's field
// "Key".
type ClientQuotaRecord struct {
	Entity      []QuotaEntity
	QuotaKey    string
	Value       float64
	Remove      bool
	UnknownTags []RawTag
}

// AccessControlEntryRecord adds an ACL.
type AccessControlEntryRecord struct {
	ID             types.UUID
	ResourceType   int8
	ResourceName   string
	PatternType    int8
	Principal      string
	Host           string
	Operation      int8
	PermissionType int8
	UnknownTags    []RawTag
}

// RemoveAccessControlEntryRecord removes an ACL.
type RemoveAccessControlEntryRecord struct {
	ID          types.UUID
	UnknownTags []RawTag
}

func (r *DelegationTokenRecord) walk(c *codec, _ int16) {
	c.string(&r.Owner)
	c.string(&r.Requester)
	c.strings(&r.Renewers, false)
	c.int64(&r.IssueTimestamp)
	c.int64(&r.MaxTimestamp)
	c.int64(&r.ExpirationTimestamp)
	c.string(&r.TokenID)
	c.tags(&r.UnknownTags)
}

func (r *RemoveDelegationTokenRecord) walk(c *codec, _ int16) {
	c.string(&r.TokenID)
	c.tags(&r.UnknownTags)
}

func (r *UserScramCredentialRecord) walk(c *codec, _ int16) {
	c.string(&r.Name)
	c.int8(&r.Mechanism)
	c.bytes(&r.Salt)
	c.bytes(&r.StoredKey)
	c.bytes(&r.ServerKey)
	c.int32(&r.Iterations)
	c.tags(&r.UnknownTags)
}

func (r *RemoveUserScramCredentialRecord) walk(c *codec, _ int16) {
	c.string(&r.Name)
	c.int8(&r.Mechanism)
	c.tags(&r.UnknownTags)
}

func walkQuotaEntity(c *codec, e *QuotaEntity) {
	c.string(&e.EntityType)
	c.nullableString(&e.EntityName)
	c.tags(&e.UnknownTags)
}

func (r *ClientQuotaRecord) walk(c *codec, _ int16) {
	array(c, &r.Entity, false, walkQuotaEntity)
	c.string(&r.QuotaKey)
	c.float64(&r.Value)
	c.bool(&r.Remove)
	c.tags(&r.UnknownTags)
}

func (r *AccessControlEntryRecord) walk(c *codec, _ int16) {
	c.uuid(&r.ID)
	c.int8(&r.ResourceType)
	c.string(&r.ResourceName)
	c.int8(&r.PatternType)
	c.string(&r.Principal)
	c.string(&r.Host)
	c.int8(&r.Operation)
	c.int8(&r.PermissionType)
	c.tags(&r.UnknownTags)
}

func (r *RemoveAccessControlEntryRecord) walk(c *codec, _ int16) {
	c.uuid(&r.ID)
	c.tags(&r.UnknownTags)
}
