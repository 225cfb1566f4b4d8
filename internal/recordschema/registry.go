package recordschema

// Api keys of the metadata records (MetadataRecordType in Apache Kafka 4.3).
const (
	KeyRegisterBroker            int16 = 0
	KeyUnregisterBroker          int16 = 1
	KeyTopic                     int16 = 2
	KeyPartition                 int16 = 3
	KeyConfig                    int16 = 4
	KeyPartitionChange           int16 = 5
	KeyFenceBroker               int16 = 7
	KeyUnfenceBroker             int16 = 8
	KeyRemoveTopic               int16 = 9
	KeyDelegationToken           int16 = 10
	KeyUserScramCredential       int16 = 11
	KeyFeatureLevel              int16 = 12
	KeyClientQuota               int16 = 14
	KeyProducerIds               int16 = 15
	KeyBrokerRegistrationChange  int16 = 17
	KeyAccessControlEntry        int16 = 18
	KeyRemoveAccessControlEntry  int16 = 19
	KeyNoOp                      int16 = 20
	KeyZkMigrationState          int16 = 21
	KeyRemoveUserScramCredential int16 = 22
	KeyBeginTransaction          int16 = 23
	KeyEndTransaction            int16 = 24
	KeyAbortTransaction          int16 = 25
	KeyRemoveDelegationToken     int16 = 26
	KeyRegisterController        int16 = 27
	KeyClearElr                  int16 = 28
)

// info describes one record type.
type info struct {
	name   string // Kafka's name
	newest int16  // newest version, the one metadata.version 30 writes
	make   func() MetadataRecord
}

// infos is indexed by api key; unused keys have no make.
var infos = [KeyClearElr + 1]info{
	KeyRegisterBroker:            {"REGISTER_BROKER_RECORD", 4, func() MetadataRecord { return &RegisterBrokerRecord{Fenced: true} }},
	KeyUnregisterBroker:          {"UNREGISTER_BROKER_RECORD", 0, func() MetadataRecord { return &UnregisterBrokerRecord{} }},
	KeyTopic:                     {"TOPIC_RECORD", 0, func() MetadataRecord { return &TopicRecord{} }},
	KeyPartition:                 {"PARTITION_RECORD", 2, func() MetadataRecord { return &PartitionRecord{} }},
	KeyConfig:                    {"CONFIG_RECORD", 0, func() MetadataRecord { return &ConfigRecord{} }},
	KeyPartitionChange:           {"PARTITION_CHANGE_RECORD", 2, func() MetadataRecord { return NewPartitionChange() }},
	KeyFenceBroker:               {"FENCE_BROKER_RECORD", 0, func() MetadataRecord { return &FenceBrokerRecord{} }},
	KeyUnfenceBroker:             {"UNFENCE_BROKER_RECORD", 0, func() MetadataRecord { return &UnfenceBrokerRecord{} }},
	KeyRemoveTopic:               {"REMOVE_TOPIC_RECORD", 0, func() MetadataRecord { return &RemoveTopicRecord{} }},
	KeyDelegationToken:           {"DELEGATION_TOKEN_RECORD", 0, func() MetadataRecord { return &DelegationTokenRecord{} }},
	KeyUserScramCredential:       {"USER_SCRAM_CREDENTIAL_RECORD", 0, func() MetadataRecord { return &UserScramCredentialRecord{} }},
	KeyFeatureLevel:              {"FEATURE_LEVEL_RECORD", 0, func() MetadataRecord { return &FeatureLevelRecord{} }},
	KeyClientQuota:               {"CLIENT_QUOTA_RECORD", 0, func() MetadataRecord { return &ClientQuotaRecord{} }},
	KeyProducerIds:               {"PRODUCER_IDS_RECORD", 0, func() MetadataRecord { return &ProducerIdsRecord{} }},
	KeyBrokerRegistrationChange:  {"BROKER_REGISTRATION_CHANGE_RECORD", 3, func() MetadataRecord { return &BrokerRegistrationChangeRecord{} }},
	KeyAccessControlEntry:        {"ACCESS_CONTROL_ENTRY_RECORD", 0, func() MetadataRecord { return &AccessControlEntryRecord{} }},
	KeyRemoveAccessControlEntry:  {"REMOVE_ACCESS_CONTROL_ENTRY_RECORD", 0, func() MetadataRecord { return &RemoveAccessControlEntryRecord{} }},
	KeyNoOp:                      {"NO_OP_RECORD", 0, func() MetadataRecord { return &NoOpRecord{} }},
	KeyZkMigrationState:          {"ZK_MIGRATION_STATE_RECORD", 0, func() MetadataRecord { return &ZkMigrationStateRecord{} }},
	KeyRemoveUserScramCredential: {"REMOVE_USER_SCRAM_CREDENTIAL_RECORD", 0, func() MetadataRecord { return &RemoveUserScramCredentialRecord{} }},
	KeyBeginTransaction:          {"BEGIN_TRANSACTION_RECORD", 0, func() MetadataRecord { return &BeginTransactionRecord{} }},
	KeyEndTransaction:            {"END_TRANSACTION_RECORD", 0, func() MetadataRecord { return &EndTransactionRecord{} }},
	KeyAbortTransaction:          {"ABORT_TRANSACTION_RECORD", 0, func() MetadataRecord { return &AbortTransactionRecord{} }},
	KeyRemoveDelegationToken:     {"REMOVE_DELEGATION_TOKEN_RECORD", 0, func() MetadataRecord { return &RemoveDelegationTokenRecord{} }},
	KeyRegisterController:        {"REGISTER_CONTROLLER_RECORD", 0, func() MetadataRecord { return &RegisterControllerRecord{} }},
	KeyClearElr:                  {"CLEAR_ELR_RECORD", 0, func() MetadataRecord { return &ClearElrRecord{} }},
}

// newRecord returns an empty record with the schema's defaults, nil when no
// record has this key.
func newRecord(key uint32) MetadataRecord {
	if key >= uint32(len(infos)) || infos[key].make == nil {
		return nil
	}
	return infos[key].make()
}

// Keys returns the api keys of all metadata records, ascending.
func Keys() []int16 {
	var keys []int16
	for k := range infos {
		if infos[k].make != nil {
			keys = append(keys, int16(k))
		}
	}
	return keys
}

// NewestVersion returns the newest version of the record with this api key; -1
// when there is no such record.
func NewestVersion(key int16) int16 {
	if key < 0 || int(key) >= len(infos) || infos[key].make == nil {
		return -1
	}
	return infos[key].newest
}

// Name returns Kafka's name of a record, for example PARTITION_RECORD.
func Name(r MetadataRecord) string { return infos[r.Key()].name }

// Key implements MetadataRecord.
func (*RegisterBrokerRecord) Key() int16 { return KeyRegisterBroker }

// Version implements MetadataRecord.
func (*RegisterBrokerRecord) Version() int16 { return 4 }

// Key implements MetadataRecord.
func (*UnregisterBrokerRecord) Key() int16 { return KeyUnregisterBroker }

// Version implements MetadataRecord.
func (*UnregisterBrokerRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*TopicRecord) Key() int16 { return KeyTopic }

// Version implements MetadataRecord.
func (*TopicRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*PartitionRecord) Key() int16 { return KeyPartition }

// Version implements MetadataRecord.
func (*PartitionRecord) Version() int16 { return 2 }

// Key implements MetadataRecord.
func (*ConfigRecord) Key() int16 { return KeyConfig }

// Version implements MetadataRecord.
func (*ConfigRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*PartitionChangeRecord) Key() int16 { return KeyPartitionChange }

// Version implements MetadataRecord.
func (*PartitionChangeRecord) Version() int16 { return 2 }

// Key implements MetadataRecord.
func (*FenceBrokerRecord) Key() int16 { return KeyFenceBroker }

// Version implements MetadataRecord.
func (*FenceBrokerRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*UnfenceBrokerRecord) Key() int16 { return KeyUnfenceBroker }

// Version implements MetadataRecord.
func (*UnfenceBrokerRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*RemoveTopicRecord) Key() int16 { return KeyRemoveTopic }

// Version implements MetadataRecord.
func (*RemoveTopicRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*DelegationTokenRecord) Key() int16 { return KeyDelegationToken }

// Version implements MetadataRecord.
func (*DelegationTokenRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*UserScramCredentialRecord) Key() int16 { return KeyUserScramCredential }

// Version implements MetadataRecord.
func (*UserScramCredentialRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*FeatureLevelRecord) Key() int16 { return KeyFeatureLevel }

// Version implements MetadataRecord.
func (*FeatureLevelRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*ClientQuotaRecord) Key() int16 { return KeyClientQuota }

// Version implements MetadataRecord.
func (*ClientQuotaRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*ProducerIdsRecord) Key() int16 { return KeyProducerIds }

// Version implements MetadataRecord.
func (*ProducerIdsRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*BrokerRegistrationChangeRecord) Key() int16 { return KeyBrokerRegistrationChange }

// Version implements MetadataRecord. Kafka writes the lowest version that holds
// the change, whatever the metadata version.
func (r *BrokerRegistrationChangeRecord) Version() int16 {
	switch {
	case r.CordonedLogDirs != nil:
		return 3
	case len(r.LogDirs) > 0:
		return 2
	case r.InControlledShutdown != ControlledShutdownNone:
		return 1
	}
	return 0
}

// Key implements MetadataRecord.
func (*AccessControlEntryRecord) Key() int16 { return KeyAccessControlEntry }

// Version implements MetadataRecord.
func (*AccessControlEntryRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*RemoveAccessControlEntryRecord) Key() int16 { return KeyRemoveAccessControlEntry }

// Version implements MetadataRecord.
func (*RemoveAccessControlEntryRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*NoOpRecord) Key() int16 { return KeyNoOp }

// Version implements MetadataRecord.
func (*NoOpRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*ZkMigrationStateRecord) Key() int16 { return KeyZkMigrationState }

// Version implements MetadataRecord.
func (*ZkMigrationStateRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*RemoveUserScramCredentialRecord) Key() int16 { return KeyRemoveUserScramCredential }

// Version implements MetadataRecord.
func (*RemoveUserScramCredentialRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*BeginTransactionRecord) Key() int16 { return KeyBeginTransaction }

// Version implements MetadataRecord.
func (*BeginTransactionRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*EndTransactionRecord) Key() int16 { return KeyEndTransaction }

// Version implements MetadataRecord.
func (*EndTransactionRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*AbortTransactionRecord) Key() int16 { return KeyAbortTransaction }

// Version implements MetadataRecord.
func (*AbortTransactionRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*RemoveDelegationTokenRecord) Key() int16 { return KeyRemoveDelegationToken }

// Version implements MetadataRecord.
func (*RemoveDelegationTokenRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*RegisterControllerRecord) Key() int16 { return KeyRegisterController }

// Version implements MetadataRecord.
func (*RegisterControllerRecord) Version() int16 { return 0 }

// Key implements MetadataRecord.
func (*ClearElrRecord) Key() int16 { return KeyClearElr }

// Version implements MetadataRecord.
func (*ClearElrRecord) Version() int16 { return 0 }
