package config

import (
	"slices"
	"strings"
)

// state says whether a setting does anything here, and if not, why.
type state int8

const (
	live           state = iota
	liveButCompact       // in force, the value "compact" excepted
	needsTxn
	needsShare
	needsStreams
	needsSecurity
	needsTiered
	needsQuota
	needsCleaner
	needsCluster
	needsTelemetry
	needsStorage
	needsReserving
	needsNetwork
	needsQuorum
	needsReplication
	goRuntime
	javaOnly
)

// reasons are the words of the docs table for a setting that is not in force.
var reasons = map[state]string{
	liveButCompact:   "stored and not yet carried out",
	needsTxn:         "waits for transactions",
	needsShare:       "waits for share groups",
	needsStreams:     "waits for streams groups",
	needsSecurity:    "waits for SASL and ACLs",
	needsTiered:      "waits for tiered storage",
	needsQuota:       "waits for quotas",
	needsCleaner:     "waits for the log cleaner",
	needsCluster:     "waits for clusters of more than one node",
	needsTelemetry:   "waits for client metrics",
	needsStorage:     "waits for the storage engine",
	needsReserving:   "segment files grow as they are written",
	needsNetwork:     "waits for the network layer",
	needsQuorum:      "waits for quorums of more than one voter",
	needsReplication: "waits for replication between nodes",
	goRuntime:        "has no meaning here, it tunes a mechanism of Kafka that Tidemark does not have",
	javaOnly:         "has no meaning here, it names Java code or feeds a Java library",
}

// Update modes of broker keys.
type update int8

const (
	readOnly update = iota
	clusterWide
	perBroker
)

// null stands for "no default" in a row.
const null = "\x00"

// row is one line of a table; keys are built from it once.
type row struct {
	name  string
	typ   Type
	def   string // null for none
	upd   update
	st    state
	imp   Importance
	limit limit
	doc   string
}

func (r row) key(scope Scope) Key {
	k := Key{
		Name: r.name, Scope: scope, Type: r.typ, Doc: r.doc, Importance: r.imp,
		Sensitive: r.typ == TypePassword, InForce: r.st == live || r.st == liveButCompact, NotInForce: reasons[r.st],
		Validate: r.limit.check, Limits: r.limit.words, distinct: r.limit.distinct,
	}
	if r.st == liveButCompact {
		k.Except = "compact"
	}
	if r.def != null {
		k.Default = &r.def
	}
	if scope == ScopeBroker {
		k.ReadOnly = r.upd == readOnly
		k.PerBroker = r.upd == perBroker
	}
	return k
}

// table is one scope's keys, sorted by name, and an index over them.
type table struct {
	keys   []Key
	byName map[string]int
}

func newTable(scope Scope, mark func(*Key), groups ...[]row) *table {
	t := &table{byName: map[string]int{}}
	for _, rows := range groups {
		for _, r := range rows {
			k := r.key(scope)
			if mark != nil {
				mark(&k)
			}
			t.keys = append(t.keys, k)
		}
	}
	slices.SortFunc(t.keys, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	for i, k := range t.keys {
		t.byName[k.Name] = i
	}
	return t
}

var (
	topicTable   = newTable(ScopeTopic, markTopic, topicRows)
	groupTable   = newTable(ScopeGroup, markGroup, groupRows)
	metricsTable = newTable(ScopeClientMetrics, nil, clientMetricsRows)
	brokerTable  = newTable(ScopeBroker, markBroker, brokerLogRows, brokerNetworkRows, brokerQuorumRows,
		brokerGroupRows, brokerShareRows, brokerTxnRows, brokerSecurityRows, brokerRemoteRows, brokerMiscRows)
)

func tableOf(scope Scope) *table {
	switch scope {
	case ScopeTopic:
		return topicTable
	case ScopeBroker:
		return brokerTable
	case ScopeGroup:
		return groupTable
	case ScopeClientMetrics:
		return metricsTable
	}
	return &table{}
}

// ours and internal name the keys with a special standing (Key.Ours, Key.Internal).
var (
	ourKeys      = map[string]bool{"durability": true, "admin.listener": true, "group.new.partitions.start": true}
	internalKeys = map[string]bool{
		"internal.segment.bytes": true, "log.initial.task.delay.ms": true, "unclean.leader.election.interval.ms": true,
		"leader.replication.throttled.rate": true, "follower.replication.throttled.rate": true,
		"replica.alter.log.dirs.io.max.bytes.per.second": true,
	}
)

func markCommon(k *Key) {
	k.Ours = ourKeys[k.Name]
	k.Internal = internalKeys[k.Name]
}

func markTopic(k *Key) {
	markCommon(k)
	for _, s := range topicSynonyms[k.Name] {
		k.Synonyms = append(k.Synonyms, s.name)
	}
}

func markGroup(k *Key) {
	if s, ok := groupSynonyms[k.Name]; ok {
		k.Synonyms = []string{s}
	}
}

func markBroker(k *Key) {
	markCommon(k)
	k.Synonyms = brokerSynonyms(k.Name)
}

// Topic returns the topic settings, sorted by name. The slice is the caller's.
func Topic() []Key { return slices.Clone(topicTable.keys) }

// Broker returns the broker settings, sorted by name. The slice is the caller's.
func Broker() []Key { return slices.Clone(brokerTable.keys) }

// Group returns the group settings, sorted by name. The slice is the caller's.
func Group() []Key { return slices.Clone(groupTable.keys) }

// ClientMetrics returns the settings of client metrics subscriptions (KIP-714),
// sorted by name. The slice is the caller's.
func ClientMetrics() []Key { return slices.Clone(metricsTable.keys) }

// Lookup finds a setting by name. Broker keys are also found behind Kafka's
// listener prefix: listener.name.NAME.KEY and listener.name.NAME.MECHANISM.KEY
// give the key with the full name and no default.
func Lookup(scope Scope, name string) (Key, bool) {
	t := tableOf(scope)
	if i, ok := t.byName[name]; ok {
		return t.keys[i], true
	}
	if scope != ScopeBroker {
		return Key{}, false
	}
	base, ok := listenerBase(name)
	if !ok {
		return Key{}, false
	}
	i, ok := t.byName[base]
	if !ok {
		return Key{}, false
	}
	k := t.keys[i]
	k.Name, k.Default, k.Synonyms = name, nil, []string{name, base}
	return k, true
}

// listenerBase strips listener.name.NAME. and, for the keys that may be set per
// SASL mechanism, the mechanism (DynamicBrokerConfig.brokerConfigSynonyms).
func listenerBase(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, "listener.name.")
	if !ok {
		return "", false
	}
	_, base, ok := strings.Cut(rest, ".")
	if !ok || base == "" {
		return "", false
	}
	for _, suffix := range mechanismKeys {
		if strings.HasSuffix(base, "."+suffix) {
			return suffix, true
		}
	}
	return base, true
}

var mechanismKeys = []string{
	"sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.login.class",
	"sasl.server.callback.handler.class", "connections.max.reauth.ms",
}
