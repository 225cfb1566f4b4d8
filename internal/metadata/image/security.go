package image

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// ProducerIDs says which producer id comes next; -1 before the first block.
type ProducerIDs struct{ Next int64 }

// QuotaEntity is one part of a quota's entity; a nil Name is the default.
type QuotaEntity struct {
	Type string // user, client-id or ip
	Name *string
}

// ClientQuota is the quota of one entity (KIP-546).
type ClientQuota struct {
	Entity []QuotaEntity // sorted by type
	Values map[string]float64
}

// ClientQuotas are all quotas.
type ClientQuotas struct{ byEntity tree[string, *ClientQuota] }

// All yields the quotas in a stable order.
func (q ClientQuotas) All() iter.Seq[*ClientQuota] { return q.byEntity.values() }

// Get finds the quota of an entity, whatever the order of its parts.
func (q ClientQuotas) Get(entity []QuotaEntity) (*ClientQuota, bool) {
	sorted := sortEntity(entity)
	return q.byEntity.get(entityKey(sorted))
}

func sortEntity(entity []QuotaEntity) []QuotaEntity {
	sorted := slices.Clone(entity)
	slices.SortFunc(sorted, func(a, b QuotaEntity) int { return strings.Compare(a.Type, b.Type) })
	return sorted
}

// entityKey quotes names, so that no two entities share a key.
func entityKey(sorted []QuotaEntity) string {
	var b strings.Builder
	for _, e := range sorted {
		b.WriteString(e.Type)
		b.WriteByte('=')
		if e.Name == nil {
			b.WriteString("<default>")
		} else {
			b.WriteString(strconv.Quote(*e.Name))
		}
		b.WriteByte(' ')
	}
	return b.String()
}

func (q ClientQuotas) replay(rec *recordschema.ClientQuotaRecord) {
	entity := make([]QuotaEntity, 0, len(rec.Entity))
	for _, e := range rec.Entity {
		entity = append(entity, QuotaEntity{Type: e.EntityType, Name: e.EntityName})
	}
	entity = sortEntity(entity)
	key := entityKey(entity)
	next := &ClientQuota{Entity: entity, Values: map[string]float64{}}
	if old, ok := q.byEntity.get(key); ok {
		next.Values = maps.Clone(old.Values)
	}
	if rec.Remove {
		delete(next.Values, rec.QuotaKey)
	} else {
		next.Values[rec.QuotaKey] = rec.Value
	}
	if len(next.Values) == 0 {
		q.byEntity.del(key)
	} else {
		q.byEntity.set(key, next)
	}
}

// ACL is one access control entry.
type ACL struct {
	ID             types.UUID
	ResourceType   int8
	ResourceName   string
	PatternType    int8
	Principal      string
	Host           string
	Operation      int8
	PermissionType int8
}

// ACLs are all access control entries.
type ACLs struct{ byID tree[string, *ACL] }

// All yields the entries in id order.
func (a ACLs) All() iter.Seq[*ACL] { return a.byID.values() }

// Get finds an entry.
func (a ACLs) Get(id types.UUID) (*ACL, bool) { return a.byID.get(uuidKey(id)) }

// Len counts the entries.
func (a ACLs) Len() int { return a.byID.len() }

// ScramCredential is what a server keeps of one SCRAM user. Mechanism is 1 for
// SCRAM-SHA-256, 2 for SCRAM-SHA-512.
type ScramCredential struct {
	Mechanism  int8
	User       string
	Salt       []byte
	StoredKey  []byte
	ServerKey  []byte
	Iterations int32
}

// Scram are all SCRAM credentials.
type Scram struct {
	byUser tree[string, *ScramCredential]
}

// Get finds a credential.
func (s Scram) Get(mechanism int8, user string) (*ScramCredential, bool) {
	return s.byUser.get(scramKey(mechanism, user))
}

// All yields the credentials by mechanism and user.
func (s Scram) All() iter.Seq[*ScramCredential] { return s.byUser.values() }

func scramKey(mechanism int8, user string) string { return string([]byte{byte(mechanism)}) + user }

// Token is one delegation token (KIP-48); times in ms since 1970.
type Token struct {
	ID           string
	Owner        string
	Requester    string
	Renewers     []string
	IssueMs      int64
	MaxMs        int64
	ExpirationMs int64
}

// Tokens are all delegation tokens.
type Tokens struct{ byID tree[string, *Token] }

// Get finds a token.
func (t Tokens) Get(id string) (*Token, bool) { return t.byID.get(id) }

// All yields the tokens by id.
func (t Tokens) All() iter.Seq[*Token] { return t.byID.values() }
