package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/metadata/placement"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// CreateTopicsInput is a CreateTopics request.
type CreateTopicsInput struct {
	Req *kmsg.CreateTopicsRequest
	// NewID draws a random topic id (types.NewUUID over a secure source).
	NewID func() types.UUID
	// Random seeds replica placement.
	Random uint64
	// Describable reports whether the caller may see a topic's configs (v5+);
	// nil allows all.
	Describable func(topic string) bool
	// DescribeConfigs fills the configs of a created topic in a v5+ response from
	// the overrides it is created with; nil leaves them empty.
	DescribeConfigs func(topic string, overrides map[string]string) []kmsg.CreateTopicsResponseTopicConfig
}

// CreateTopics creates topics (ReplicationControlManager.createTopics; KIP-464
// defaults, KIP-525 configs in the response, KIP-516 ids). The caller has
// authorized and, from v6 on, applied the controller mutation quota.
func (c *Core) CreateTopics(in CreateTopicsInput) Result[*kmsg.CreateTopicsResponse] {
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Version = in.Req.Version
	result := Result[*kmsg.CreateTopicsResponse]{Response: resp, Atomic: true}
	if c.requestedPartitions(in.Req) > maxPartitionsPerRequest {
		err := kerrors.New(kerrors.PolicyViolation, "Excessively large number of partitions per request.")
		for _, t := range in.Req.Topics {
			resp.Topics = append(resp.Topics, createError(t.Topic, err))
		}
		return result
	}
	seen := map[string]int{}
	for _, t := range in.Req.Topics {
		seen[t.Topic]++
	}
	var refused []kmsg.CreateTopicsResponseTopic // Kafka lists these last
	creator := &topicCreator{c: c, in: in, p: c.newPlan()}
	for i := range in.Req.Topics {
		t := &in.Req.Topics[i]
		switch {
		case seen[t.Topic] > 1:
			refused = append(refused, createError(t.Topic, kerrors.New(kerrors.InvalidRequest, "Duplicate topic name.")))
			seen[t.Topic] = -1 // one answer for all of them
		case seen[t.Topic] < 0:
		case t.Topic == types.ClusterMetadataTopic:
			refused = append(refused, createError(t.Topic, kerrors.New(kerrors.InvalidRequest,
				"Creation of internal topic %s is prohibited.", t.Topic)))
		default:
			resp.Topics = append(resp.Topics, creator.create(t))
		}
	}
	resp.Topics = append(resp.Topics, refused...)
	if len(creator.p.records) > maxRecordsPerUserOp {
		err := kerrors.New(kerrors.PolicyViolation, errExcessivelyLargeBatch)
		for i, t := range resp.Topics {
			resp.Topics[i] = createError(t.Topic, err)
		}
		return result
	}
	if !in.Req.ValidateOnly {
		result.Records = creator.p.records
	}
	return result
}

// requestedPartitions counts what the request asks for, valid or not.
func (c *Core) requestedPartitions(req *kmsg.CreateTopicsRequest) int {
	total := 0
	for _, t := range req.Topics {
		switch {
		case len(t.ReplicaAssignment) > 0:
			total += len(t.ReplicaAssignment)
		case t.NumPartitions == -1:
			total += int(c.opts.DefaultNumPartitions)
		case t.NumPartitions > 0:
			total += int(t.NumPartitions)
		}
	}
	return total
}

func createError(topic string, err *kerrors.Error) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic = topic
	t.ErrorCode = errCode(err)
	t.ErrorMessage = messagePtr(err)
	t.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	return t
}

// messagePtr is the message of an error as a response field; nil when the code
// says it all.
func messagePtr(err *kerrors.Error) *string {
	if err == nil || err.Message == "" {
		return nil
	}
	return &err.Message
}

// topicCreator holds what one CreateTopics request shares among its topics.
type topicCreator struct {
	c  *Core
	in CreateTopicsInput
	p  *plan
}

func (tc *topicCreator) create(t *kmsg.CreateTopicsRequestTopic) kmsg.CreateTopicsResponseTopic {
	overrides, configRecords, err := tc.checkNameAndConfigs(t)
	if err != nil {
		return createError(t.Topic, err)
	}
	parts, err := tc.assign(t)
	if err != nil {
		return createError(t.Topic, err)
	}
	id, err := tc.newID()
	if err != nil {
		return createError(t.Topic, err)
	}
	// Configs come after the topic and before its partitions.
	tc.p.add(&recordschema.TopicRecord{Name: t.Topic, TopicID: id})
	tc.p.records = append(tc.p.records, configRecords...)
	for i, part := range parts {
		tc.p.add(part.Record(id, int32(i)))
	}
	out := kmsg.NewCreateTopicsResponseTopic()
	out.Topic, out.TopicID = t.Topic, id
	out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	if tc.in.Describable != nil && !tc.in.Describable(t.Topic) {
		out.ConfigErrorCode = int16(kerrors.TopicAuthorizationFailed)
		return out
	}
	out.NumPartitions = int32(len(parts))
	out.ReplicationFactor = int16(len(parts[0].Replicas))
	if tc.in.DescribeConfigs != nil {
		out.Configs = tc.in.DescribeConfigs(t.Topic, overrides)
	}
	return out
}

// newID draws an id that no live topic has. Past topics are covered by the
// randomness of the source.
func (tc *topicCreator) newID() (types.UUID, *kerrors.Error) {
	for range 100 {
		id := tc.in.NewID()
		if _, taken := tc.c.now().Topics.ByID(id); taken || id.Reserved() {
			continue
		}
		if slices.ContainsFunc(tc.p.records, func(r recordschema.MetadataRecord) bool {
			t, ok := r.(*recordschema.TopicRecord)
			return ok && t.TopicID == id
		}) {
			continue
		}
		return id, nil
	}
	return types.UUID{}, kerrors.New(kerrors.UnknownServerError, "the source of topic ids repeats itself")
}

// checkNameAndConfigs finds the error with Kafka's precedence: a name that is
// taken beats one that is invalid, and both beat the configs.
func (tc *topicCreator) checkNameAndConfigs(t *kmsg.CreateTopicsRequestTopic) (
	overrides map[string]string, records []recordschema.MetadataRecord, err *kerrors.Error,
) {
	if _, ok := tc.c.now().Topics.ByName(t.Topic); ok {
		return nil, nil, kerrors.New(kerrors.TopicAlreadyExists, "Topic '%s' already exists.", t.Topic)
	}
	if err := validateTopicName(t.Topic); err != nil {
		return nil, nil, err
	}
	if other := tc.c.colliding(t.Topic); other != "" {
		return nil, nil, kerrors.New(kerrors.InvalidTopicException, "Topic '%s' collides with existing topic: %s", t.Topic, other)
	}
	overrides = map[string]string{}
	var nulls []string
	var ops []configOp
	for _, cfg := range t.Configs {
		if cfg.Value == nil {
			nulls = append(nulls, cfg.Name)
			continue
		}
		overrides[cfg.Name] = *cfg.Value
		ops = setOp(ops, cfg.Name, *cfg.Value)
	}
	if len(nulls) > 0 {
		return nil, nil, kerrors.New(kerrors.InvalidConfig, "Null value not supported for topic configs: %s", strings.Join(nulls, ","))
	}
	if len(ops) == 0 {
		return overrides, nil, nil
	}
	resource := image.Resource{Type: image.ResourceTopic, Name: t.Topic}
	recs, err := tc.c.planIncremental(resource, ops, true)
	if err != nil {
		return nil, nil, err
	}
	return overrides, append(recs, tc.c.clearELRRecords(recs)...), nil
}

// colliding returns an existing topic that differs from name only in '.' and
// '_'; "" when there is none.
func (c *Core) colliding(name string) string {
	if !hasCollisionChars(name) {
		return ""
	}
	first := ""
	for other := range c.collisions[unifyCollisionChars(name)] {
		if first == "" || other < first {
			first = other
		}
	}
	return first
}

// validateTopicName is Topic.validate.
func validateTopicName(name string) *kerrors.Error {
	var reason string
	switch {
	case name == "":
		reason = "the empty string is not allowed"
	case name == "." || name == "..":
		reason = "'" + name + "' is not allowed"
	case len(name) > 249:
		reason = fmt.Sprintf("the length of '%s' is longer than the max allowed length 249", name)
	case strings.ContainsFunc(name, func(r rune) bool { return !isTopicChar(r) }):
		reason = fmt.Sprintf("'%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
	default:
		return nil
	}
	return kerrors.New(kerrors.InvalidTopicException, "Topic name is invalid: %s", reason)
}

func isTopicChar(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// assign decides the partitions of a new topic.
func (tc *topicCreator) assign(t *kmsg.CreateTopicsRequestTopic) ([]*image.Partition, *kerrors.Error) {
	if len(t.ReplicaAssignment) > 0 {
		return tc.assignManually(t)
	}
	if t.ReplicationFactor < -1 || t.ReplicationFactor == 0 {
		return nil, kerrors.New(kerrors.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	}
	if t.NumPartitions < -1 || t.NumPartitions == 0 {
		return nil, kerrors.New(kerrors.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	spec := placement.Spec{Partitions: int(t.NumPartitions), ReplicationFactor: t.ReplicationFactor}
	if t.NumPartitions == -1 {
		spec.Partitions = int(tc.c.opts.DefaultNumPartitions)
	}
	if t.ReplicationFactor == -1 {
		spec.ReplicationFactor = tc.c.opts.DefaultReplicationFactor
	}
	seed := tc.in.Random + uint64(len(tc.p.records)) // each topic starts its stripes elsewhere
	assignments, err := placement.Place(spec, tc.c.usableBrokers(), seed)
	if err != nil {
		return nil, kerrors.New(kerrors.InvalidReplicationFactor, "Unable to replicate the partition %d time(s): %s",
			spec.ReplicationFactor, kerrors.MessageOf(err))
	}
	parts := make([]*image.Partition, 0, len(assignments))
	for _, replicas := range assignments {
		part := tc.c.newPartition(replicas)
		if part == nil {
			return nil, errNoActiveReplica(spec.ReplicationFactor)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

func errNoActiveReplica(rf int16) *kerrors.Error {
	return kerrors.New(kerrors.InvalidReplicationFactor, "Unable to replicate the partition %d time(s): "+
		"All brokers are currently fenced or in controlled shutdown.", rf)
}

func (tc *topicCreator) assignManually(t *kmsg.CreateTopicsRequestTopic) ([]*image.Partition, *kerrors.Error) {
	const why = "A manual partition assignment was specified, but "
	if t.ReplicationFactor != -1 {
		return nil, kerrors.New(kerrors.InvalidRequest, why+"replication factor was not set to -1.")
	}
	if t.NumPartitions != -1 {
		return nil, kerrors.New(kerrors.InvalidRequest, why+"numPartitions was not set to -1.")
	}
	parts := map[int32]*image.Partition{}
	rf := -1
	for _, a := range t.ReplicaAssignment {
		if parts[a.Partition] != nil {
			return nil, kerrors.New(kerrors.InvalidReplicaAssignment, "Found multiple manual partition assignments for partition %d", a.Partition)
		}
		if err := tc.c.checkAssignment(a.Replicas, rf); err != nil {
			return nil, err
		}
		rf = len(a.Replicas)
		part := tc.c.newPartition(a.Replicas)
		if part == nil {
			return nil, errAllReplicasInactive(a.Partition)
		}
		parts[a.Partition] = part
	}
	out := make([]*image.Partition, 0, len(parts))
	for i := range int32(len(parts)) {
		part, ok := parts[i]
		if !ok {
			return nil, kerrors.New(kerrors.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
		out = append(out, part)
	}
	return out, nil
}

func errAllReplicasInactive(partition int32) *kerrors.Error {
	return kerrors.New(kerrors.InvalidReplicaAssignment, "All brokers specified in the manual partition assignment for "+
		"partition %d are fenced or in controlled shutdown.", partition)
}

// newPartition is a partition whose ISR are the active ones of its replicas; nil
// when there are none.
func (c *Core) newPartition(replicas []int32) *image.Partition {
	p := &image.Partition{Replicas: slices.Clone(replicas)}
	for _, id := range replicas {
		p.Directories = append(p.Directories, c.defaultDir(id))
		if c.isActive(id) {
			p.ISR = append(p.ISR, id)
		}
	}
	if len(p.ISR) == 0 {
		return nil
	}
	p.Leader = p.ISR[0]
	return p
}

// usableBrokers are those that may take new replicas.
func (c *Core) usableBrokers() []placement.Broker {
	var out []placement.Broker
	for b := range c.now().Cluster.All() {
		if !b.Fenced && b.InControlledShutdown || !hasUncordonedDir(b) {
			continue
		}
		out = append(out, placement.Broker{ID: b.ID, Rack: b.Rack, Fenced: b.Fenced})
	}
	return out
}

func hasUncordonedDir(b *image.Broker) bool {
	if len(b.LogDirs) == 0 || b.CordonedLogDirs == nil {
		return true
	}
	return slices.ContainsFunc(b.LogDirs, func(dir types.UUID) bool { return !slices.Contains(b.CordonedLogDirs, dir) })
}

// checkAssignment checks one manual assignment; rf is the number of replicas it
// must have, -1 for any.
func (c *Core) checkAssignment(replicas []int32, rf int) *kerrors.Error {
	const includes = "The manual partition assignment includes "
	fail := func(format string, args ...any) *kerrors.Error {
		return kerrors.New(kerrors.InvalidReplicaAssignment, includes+format, args...)
	}
	if len(replicas) == 0 {
		return fail("an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, id := range sorted {
		b, ok := c.now().Cluster.Broker(id)
		switch {
		case !ok:
			return fail("broker %d, but no such broker is registered.", id)
		case !hasUncordonedDir(b):
			return fail("broker %d, but all its log directories are cordoned.", id)
		case i > 0 && sorted[i-1] == id:
			return fail("the broker %d more than once.", id)
		}
	}
	if rf >= 0 && len(replicas) != rf {
		return fail("a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).",
			len(replicas), rf)
	}
	return nil
}
