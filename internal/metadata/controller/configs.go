package controller

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
)

// maxConfigValueBytes bounds one config value (Short.MAX_VALUE in Kafka).
const maxConfigValueBytes = 32767

// configOp is one change of one key.
type configOp struct {
	key   string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

// setOp adds or replaces a SET of key: of duplicates the last counts.
func setOp(ops []configOp, key, value string) []configOp {
	for i := range ops {
		if ops[i].key == key {
			ops[i].value = &value
			return ops
		}
	}
	return append(ops, configOp{key: key, op: kmsg.IncrementalAlterConfigOpSet, value: &value})
}

// IncrementalAlterConfigs changes single keys (KIP-339;
// ConfigurationControlManager.incrementalAlterConfigs). A resource changes
// wholly or not at all; others are not affected by its error.
func (c *Core) IncrementalAlterConfigs(req *kmsg.IncrementalAlterConfigsRequest) Result[*kmsg.IncrementalAlterConfigsResponse] {
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	resp.Version = req.Version
	seen := map[image.Resource]int{}
	for i := range req.Resources {
		seen[resourceOf(req.Resources[i].ResourceType, req.Resources[i].ResourceName)]++
	}
	var records []recordschema.MetadataRecord
	for i := range req.Resources {
		rr := &req.Resources[i]
		resource := resourceOf(rr.ResourceType, rr.ResourceName)
		recs, err := c.incrementalResource(resource, rr, seen)
		if errors.Is(err, errAnswered) {
			continue
		}
		records = append(records, recs...)
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = rr.ResourceType, rr.ResourceName
		out.ErrorCode, out.ErrorMessage = codeAndMessage(err)
		resp.Resources = append(resp.Resources, out)
	}
	result := Result[*kmsg.IncrementalAlterConfigsResponse]{Response: resp, Atomic: true}
	if !req.ValidateOnly {
		result.Records = append(records, c.clearELRRecords(records)...)
	}
	return result
}

// errAnswered says that a duplicate resource already has its answer.
var errAnswered = errors.New("answered before")

func resourceOf(t kmsg.ConfigResourceType, name string) image.Resource {
	return image.Resource{Type: image.ResourceType(t), Name: name}
}

func codeAndMessage(err error) (int16, *string) {
	var e *kerrors.Error
	if err == nil || !errors.As(err, &e) {
		return 0, nil
	}
	return errCode(e), messagePtr(e)
}

// checkResource refuses unknown types and resources named twice.
func checkResource(r image.Resource, seen map[image.Resource]int) error {
	switch {
	case r.Type.String() == "UNKNOWN":
		return kerrors.New(kerrors.InvalidRequest, "Unknown resource type %d", r.Type)
	case seen[r] < 0:
		return errAnswered
	case seen[r] > 1:
		seen[r] = -1
		return kerrors.New(kerrors.InvalidRequest, "Duplicate resource.")
	}
	return nil
}

func (c *Core) incrementalResource(
	r image.Resource, rr *kmsg.IncrementalAlterConfigsRequestResource, seen map[image.Resource]int,
) ([]recordschema.MetadataRecord, error) {
	if err := checkResource(r, seen); err != nil {
		return nil, err
	}
	var ops []configOp
	var nulls []string
	for _, cfg := range rr.Configs {
		if cfg.Op < kmsg.IncrementalAlterConfigOpSet || cfg.Op > kmsg.IncrementalAlterConfigOpSubtract {
			return nil, kerrors.New(kerrors.InvalidRequest, "Unknown operation type %d for config key %s", cfg.Op, cfg.Name)
		}
		if slices.ContainsFunc(ops, func(o configOp) bool { return o.key == cfg.Name }) {
			return nil, kerrors.New(kerrors.InvalidRequest, "Error due to duplicate config keys")
		}
		if cfg.Value == nil && cfg.Op != kmsg.IncrementalAlterConfigOpDelete {
			nulls = append(nulls, cfg.Name)
		}
		ops = append(ops, configOp{cfg.Name, cfg.Op, cfg.Value})
	}
	if len(nulls) > 0 {
		return nil, kerrors.New(kerrors.InvalidRequest, "Null value not supported for : %s", strings.Join(nulls, ", "))
	}
	recs, err := c.planIncremental(r, ops, false)
	if err != nil {
		return nil, err
	}
	return recs, nil
}

// planIncremental turns operations into records and validates the outcome.
// created says that the resource comes into being in the same command.
func (c *Core) planIncremental(r image.Resource, ops []configOp, created bool) ([]recordschema.MetadataRecord, *kerrors.Error) {
	existing := c.now().Configs.Get(r.Type, r.Name)
	var records []*recordschema.ConfigRecord
	for _, op := range ops {
		var current *string
		if v, ok := existing[op.key]; ok {
			current = &v
		}
		next, err := c.applyOp(r, op, current)
		if err != nil {
			return nil, err
		}
		records = appendConfig(records, r, op.key, current, next)
	}
	if err := c.validateConfigs(r, existing, records, created); err != nil {
		return nil, err
	}
	return asRecords(records), nil
}

func (c *Core) applyOp(r image.Resource, op configOp, current *string) (*string, *kerrors.Error) {
	switch op.op {
	case kmsg.IncrementalAlterConfigOpSet:
		return op.value, nil
	case kmsg.IncrementalAlterConfigOpDelete:
		return nil, nil
	}
	name := "APPEND"
	if op.op == kmsg.IncrementalAlterConfigOpSubtract {
		name = "SUBTRACT"
	}
	if !c.opts.Configs.List(r.Type, op.key) {
		return nil, kerrors.New(kerrors.InvalidConfig, "Can't %s to key %s because its type is not LIST.", name, op.key)
	}
	value := c.opts.Configs.Default(r.Type, op.key)
	if current != nil {
		value = *current
	}
	list := splitList(value)
	for _, item := range strings.Split(*op.value, ",") {
		i := slices.Index(list, item)
		switch {
		case name == "APPEND" && i < 0:
			list = append(list, item)
		case name == "SUBTRACT" && i >= 0:
			list = slices.Delete(list, i, i+1)
		}
	}
	next := strings.Join(list, ",")
	return &next, nil
}

func splitList(value string) []string {
	var out []string
	for _, item := range strings.Split(value, ",") {
		if item != "" {
			out = append(out, item)
		}
	}
	return out
}

// appendConfig adds a record when the value changes. Broker configs are always
// written: the record makes brokers read their key stores again (KAFKA-14136).
func appendConfig(records []*recordschema.ConfigRecord, r image.Resource, key string, current, next *string) []*recordschema.ConfigRecord {
	same := current == nil && next == nil || current != nil && next != nil && *current == *next
	if same && r.Type != image.ResourceBroker {
		return records
	}
	return append(records, &recordschema.ConfigRecord{ResourceType: int8(r.Type), ResourceName: r.Name, Name: key, Value: next})
}

func asRecords(in []*recordschema.ConfigRecord) []recordschema.MetadataRecord {
	var out []recordschema.MetadataRecord
	for _, r := range in {
		out = append(out, r)
	}
	return out
}

// validateConfigs checks what a resource would have once records are applied.
func (c *Core) validateConfigs(r image.Resource, existing map[string]string, records []*recordschema.ConfigRecord, created bool) *kerrors.Error {
	proposed := map[string]string{}
	for k, v := range existing {
		proposed[k] = v
	}
	for _, rec := range records {
		if err := c.checkMinISRChange(r, rec); err != nil {
			return err
		}
		switch {
		case rec.Value == nil:
			delete(proposed, rec.Name)
		case len(*rec.Value) > maxConfigValueBytes:
			return kerrors.New(kerrors.InvalidConfig, "The configuration value cannot be added because "+
				"it exceeds the maximum value size of %d bytes.", maxConfigValueBytes)
		default:
			proposed[rec.Name] = *rec.Value
		}
	}
	if err := checkResourceName(r); err != nil {
		return err
	}
	if err := c.opts.Configs.Validate(r, existing, proposed); err != nil {
		return asConfigError(err)
	}
	if created {
		return nil
	}
	return c.checkResourceExists(r)
}

// asConfigError gives an error of the schema a code.
func asConfigError(err error) *kerrors.Error {
	code := kerrors.CodeOf(err)
	if code == kerrors.UnknownServerError {
		return kerrors.New(kerrors.InvalidConfig, "%s", err.Error())
	}
	return kerrors.New(code, "%s", kerrors.MessageOf(err))
}

// checkMinISRChange: with ELR one min.insync.replicas per topic must hold on all
// brokers (KIP-966), so there is none per broker and always one for the cluster.
func (c *Core) checkMinISRChange(r image.Resource, rec *recordschema.ConfigRecord) *kerrors.Error {
	if rec.Name != configMinISR || r.Type != image.ResourceBroker || !c.now().Features.ELREnabled() {
		return nil
	}
	if r.Name != "" {
		return kerrors.New(kerrors.InvalidConfig, "Broker-level %s cannot be altered while ELR is enabled.", configMinISR)
	}
	if rec.Value == nil {
		return kerrors.New(kerrors.InvalidConfig, "Cluster-level %s cannot be removed while ELR is enabled.", configMinISR)
	}
	return nil
}

// checkResourceName is the part of ControllerConfigurationValidator that looks
// at the resource itself.
func checkResourceName(r image.Resource) *kerrors.Error {
	switch r.Type {
	case image.ResourceTopic:
		if r.Name == "" {
			return kerrors.New(kerrors.InvalidRequest, "Default topic resources are not allowed.")
		}
		return validateTopicName(r.Name)
	case image.ResourceBroker:
		if r.Name == "" {
			return nil
		}
		id, err := strconv.ParseInt(r.Name, 10, 32)
		if err != nil {
			return kerrors.New(kerrors.InvalidRequest, "Unable to parse broker name as a base 10 number.")
		}
		if id < 0 {
			return kerrors.New(kerrors.InvalidRequest, "Invalid negative broker ID.")
		}
		return nil
	case image.ResourceGroup:
		if r.Name == "" {
			return kerrors.New(kerrors.InvalidRequest, "Default group resources are not allowed.")
		}
		return nil
	case image.ResourceClientMetrics:
		return nil
	}
	return kerrors.New(kerrors.InvalidRequest, "Unknown resource type %s", r.Type)
}

func (c *Core) checkResourceExists(r image.Resource) *kerrors.Error {
	switch r.Type {
	case image.ResourceTopic:
		if _, ok := c.now().Topics.ByName(r.Name); !ok {
			return kerrors.New(kerrors.UnknownTopicOrPartition, "The topic '%s' does not exist.", r.Name)
		}
	case image.ResourceBroker:
		if r.Name == "" {
			return nil
		}
		id, _ := strconv.ParseInt(r.Name, 10, 32) // checked by checkResourceName
		if !c.knownNode(int32(id)) {
			return kerrors.New(kerrors.BrokerIDNotRegistered, "No node with id %d found.", id)
		}
	}
	return nil
}

func (c *Core) knownNode(id int32) bool {
	if _, ok := c.now().Cluster.Broker(id); ok {
		return true
	}
	if _, ok := c.now().Cluster.Controller(id); ok {
		return true
	}
	return id == c.opts.NodeID || slices.Contains(c.opts.Voters, id)
}

// clearELRRecords: a new min.insync.replicas changes who is eligible, so the ELR
// kept under the old one no longer holds (KIP-966).
func (c *Core) clearELRRecords(in []recordschema.MetadataRecord) []recordschema.MetadataRecord {
	if !c.now().Features.ELREnabled() {
		return nil
	}
	var out []recordschema.MetadataRecord
	for _, r := range in {
		cfg, ok := r.(*recordschema.ConfigRecord)
		if !ok || cfg.Name != configMinISR {
			continue
		}
		rec := &recordschema.ClearElrRecord{}
		if image.ResourceType(cfg.ResourceType) == image.ResourceTopic {
			rec.TopicName = cfg.ResourceName
		}
		out = append(out, rec)
	}
	return out
}

// AlterConfigs replaces all configs of a resource (the legacy call; deprecated
// by KIP-339).
func (c *Core) AlterConfigs(req *kmsg.AlterConfigsRequest) Result[*kmsg.AlterConfigsResponse] {
	resp := kmsg.NewPtrAlterConfigsResponse()
	resp.Version = req.Version
	seen := map[image.Resource]int{}
	for i := range req.Resources {
		seen[resourceOf(req.Resources[i].ResourceType, req.Resources[i].ResourceName)]++
	}
	var records []recordschema.MetadataRecord
	for i := range req.Resources {
		rr := &req.Resources[i]
		recs, err := c.replaceResource(resourceOf(rr.ResourceType, rr.ResourceName), rr, seen)
		if errors.Is(err, errAnswered) {
			continue
		}
		records = append(records, recs...)
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = rr.ResourceType, rr.ResourceName
		out.ErrorCode, out.ErrorMessage = codeAndMessage(err)
		resp.Resources = append(resp.Resources, out)
	}
	result := Result[*kmsg.AlterConfigsResponse]{Response: resp, Atomic: true}
	if !req.ValidateOnly {
		result.Records = append(records, c.clearELRRecords(records)...)
	}
	return result
}

func (c *Core) replaceResource(r image.Resource, rr *kmsg.AlterConfigsRequestResource, seen map[image.Resource]int) ([]recordschema.MetadataRecord, error) {
	if err := checkResource(r, seen); err != nil {
		return nil, err
	}
	existing := c.now().Configs.Get(r.Type, r.Name)
	wanted := map[string]bool{}
	var nulls []string
	var records []*recordschema.ConfigRecord
	for _, cfg := range rr.Configs {
		if wanted[cfg.Name] {
			return nil, kerrors.New(kerrors.InvalidRequest, "Error due to duplicate config keys")
		}
		wanted[cfg.Name] = true
		if cfg.Value == nil {
			nulls = append(nulls, cfg.Name)
			continue
		}
		var current *string
		if v, ok := existing[cfg.Name]; ok {
			current = &v
		}
		records = appendConfig(records, r, cfg.Name, current, cfg.Value)
	}
	if len(nulls) > 0 {
		return nil, kerrors.New(kerrors.InvalidRequest, "Null value not supported for : %s", strings.Join(nulls, ", "))
	}
	for _, key := range slices.Sorted(maps.Keys(existing)) {
		if !wanted[key] {
			records = append(records, &recordschema.ConfigRecord{ResourceType: int8(r.Type), ResourceName: r.Name, Name: key})
		}
	}
	if err := c.validateConfigs(r, existing, records, false); err != nil {
		return nil, err
	}
	return asRecords(records), nil
}

// elrSafetyRecords make it safe to turn ELR on: a cluster-level
// min.insync.replicas, and none per broker (KIP-966).
func (c *Core) elrSafetyRecords() []recordschema.MetadataRecord {
	var out []recordschema.MetadataRecord
	configs := c.now().Configs
	if _, ok := configs.Value(image.ResourceBroker, "", configMinISR); !ok {
		value := c.opts.Configs.Default(image.ResourceBroker, configMinISR)
		if value == "" {
			value = "1"
		}
		out = append(out, minISRRecord(value))
	}
	for r, values := range configs.All() {
		if _, ok := values[configMinISR]; ok && r.Type == image.ResourceBroker && r.Name != "" {
			out = append(out, &recordschema.ConfigRecord{ResourceType: int8(r.Type), ResourceName: r.Name, Name: configMinISR})
		}
	}
	return out
}

func minISRRecord(value string) *recordschema.ConfigRecord {
	return &recordschema.ConfigRecord{ResourceType: int8(image.ResourceBroker), Name: configMinISR, Value: &value}
}
