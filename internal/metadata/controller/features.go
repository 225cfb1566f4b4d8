package controller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
)

// MetadataVersion is the metadata.version this release writes: 4.3-IV0.
const MetadataVersion int16 = 30

// metadataVersionELR is the level that eligible.leader.replicas.version 1 needs
// (4.0-IV1).
const metadataVersionELR int16 = 23

// SupportedFeatures are the levels this software supports. Features that do not
// work yet (transactions, share and streams groups) are absent, as Kafka leaves
// out a feature whose highest level is 0.
func SupportedFeatures() map[string]image.FeatureRange {
	return map[string]image.FeatureRange{
		image.FeatureMetadataVersion:        {Min: MetadataVersion, Max: MetadataVersion},
		image.FeatureKRaftVersion:           {Min: 0, Max: 1},
		image.FeatureGroupVersion:           {Min: 0, Max: 1},
		image.FeatureEligibleLeaderReplicas: {Min: 0, Max: 1},
	}
}

// DefaultFeatures are the levels a new cluster starts with.
func DefaultFeatures() map[string]int16 {
	return map[string]int16{
		image.FeatureMetadataVersion:        MetadataVersion,
		image.FeatureGroupVersion:           1,
		image.FeatureEligibleLeaderReplicas: 1,
	}
}

// CheckFeatures says why this software cannot serve im: a finalized level that
// it does not support. kraft.version is the quorum's matter.
func CheckFeatures(im *image.Image, supported map[string]image.FeatureRange) error {
	for name, level := range im.Features.All() {
		r := supported[name]
		if name != image.FeatureKRaftVersion && (level < r.Min || level > r.Max) {
			return fmt.Errorf("the cluster runs %s at level %d; this software supports levels %d to %d", name, level, r.Min, r.Max)
		}
	}
	return nil
}

// BootstrapInput says what a new cluster starts with.
type BootstrapInput struct {
	// Features are the levels to finalize; nil means DefaultFeatures.
	Features map[string]int16
	// MinISR is the static min.insync.replicas: with ELR it becomes the
	// cluster-level config. 0 means 1.
	MinISR int
	// Scram are credentials given when the folder was formatted.
	Scram []*recordschema.UserScramCredentialRecord
}

// BootstrapRecords returns the first records of a new cluster's log, wrapped in a
// metadata transaction as Kafka does (ActivationRecordsGenerator, KIP-868).
func BootstrapRecords(in BootstrapInput) []recordschema.MetadataRecord {
	name := "Bootstrap records"
	out := []recordschema.MetadataRecord{&recordschema.BeginTransactionRecord{Name: &name}}
	out = append(out, BootstrapSnapshotRecords(in)...)
	if in.levels()[image.FeatureEligibleLeaderReplicas] > 0 {
		out = append(out, minISRRecord(strconv.Itoa(max(in.MinISR, 1))))
	}
	return append(out, &recordschema.EndTransactionRecord{})
}

// BootstrapSnapshotRecords returns what formatting puts into
// bootstrap.checkpoint: the feature levels, metadata.version first, and SCRAM
// credentials.
func BootstrapSnapshotRecords(in BootstrapInput) []recordschema.MetadataRecord {
	levels := in.levels()
	out := []recordschema.MetadataRecord{&recordschema.FeatureLevelRecord{
		Name: image.FeatureMetadataVersion, FeatureLevel: levels[image.FeatureMetadataVersion],
	}}
	for _, name := range slices.Sorted(maps.Keys(levels)) {
		if name != image.FeatureMetadataVersion && levels[name] > 0 {
			out = append(out, &recordschema.FeatureLevelRecord{Name: name, FeatureLevel: levels[name]})
		}
	}
	for _, s := range in.Scram {
		out = append(out, s)
	}
	return out
}

func (in BootstrapInput) levels() map[string]int16 {
	if in.Features == nil {
		return DefaultFeatures()
	}
	return in.Features
}

// Upgrade types on the wire (FeatureUpdate.UpgradeType).
const (
	upgradeTypeUpgrade         int8 = 1
	upgradeTypeSafeDowngrade   int8 = 2
	upgradeTypeUnsafeDowngrade int8 = 3
)

// UpdateFeatures changes finalized feature levels (KIP-584, KIP-778, KIP-1022).
// All updates of a request succeed or none does.
func (c *Core) UpdateFeatures(req *kmsg.UpdateFeaturesRequest) Result[*kmsg.UpdateFeaturesResponse] {
	resp := kmsg.NewPtrUpdateFeaturesResponse()
	resp.Version = req.Version
	updates := uniqueUpdates(req)
	proposed := map[string]int16{}
	for name, level := range c.now().Features.All() {
		proposed[name] = level
	}
	for _, u := range updates {
		proposed[u.Feature] = u.MaxVersionLevel
	}
	var records []recordschema.MetadataRecord
	for _, u := range updates {
		recs, err := c.updateFeature(u, proposed)
		if err != nil {
			resp.ErrorCode = errCode(err)
			resp.ErrorMessage = kmsg.StringPtr("The update failed for all features since the following feature had an error: " + err.Message)
			return Result[*kmsg.UpdateFeaturesResponse]{Response: resp}
		}
		if u.Feature == image.FeatureEligibleLeaderReplicas && u.MaxVersionLevel > 0 {
			recs = append(c.elrSafetyRecords(), recs...)
		}
		records = append(records, recs...)
	}
	for _, u := range req.FeatureUpdates {
		r := kmsg.NewUpdateFeaturesResponseResult()
		r.Feature = u.Feature
		resp.Results = append(resp.Results, r)
	}
	if req.Version > 1 {
		resp.Results = nil
	}
	if req.ValidateOnly {
		records = nil
	}
	return Result[*kmsg.UpdateFeaturesResponse]{Records: records, Response: resp, Atomic: true}
}

// uniqueUpdates keeps the last update of each feature and gives v0 requests an
// upgrade type.
func uniqueUpdates(req *kmsg.UpdateFeaturesRequest) []kmsg.UpdateFeaturesRequestFeatureUpdate {
	var out []kmsg.UpdateFeaturesRequestFeatureUpdate
	for _, u := range req.FeatureUpdates {
		if req.Version == 0 {
			u.UpgradeType = upgradeTypeUpgrade
			if u.AllowDowngrade {
				u.UpgradeType = upgradeTypeSafeDowngrade
			}
		}
		same := func(o kmsg.UpdateFeaturesRequestFeatureUpdate) bool { return o.Feature == u.Feature }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i] = u
		} else {
			out = append(out, u)
		}
	}
	return out
}

func invalidUpdate(u kmsg.UpdateFeaturesRequestFeatureUpdate, why string) *kerrors.Error {
	return kerrors.New(kerrors.InvalidUpdateVersion, "Invalid update version %d for feature %s. %s", u.MaxVersionLevel, u.Feature, why)
}

// laterFeatures exist, but only at level 0 here.
var laterFeatures = []string{"transaction.version", "share.version", "streams.version"}

func (c *Core) updateFeature(u kmsg.UpdateFeaturesRequestFeatureUpdate, proposed map[string]int16) ([]recordschema.MetadataRecord, *kerrors.Error) {
	current := c.finalizedLevel(u.Feature)
	switch {
	case u.UpgradeType < upgradeTypeUpgrade || u.UpgradeType > upgradeTypeUnsafeDowngrade:
		return nil, invalidUpdate(u, "The controller does not support the given upgrade type.")
	case u.MaxVersionLevel < 0:
		return nil, invalidUpdate(u, "A feature version cannot be less than 0.")
	}
	if _, known := c.opts.Features[u.Feature]; !known && !slices.Contains(laterFeatures, u.Feature) {
		return nil, invalidUpdate(u, fmt.Sprintf("Local controller %d does not support this feature.", c.opts.NodeID))
	}
	if why := c.whyNotSupported(u.Feature, u.MaxVersionLevel); why != "" {
		return nil, invalidUpdate(u, why)
	}
	switch {
	case u.MaxVersionLevel < current && u.UpgradeType == upgradeTypeUpgrade:
		return nil, invalidUpdate(u, "Can't downgrade the version of this feature without setting the "+
			"upgrade type to either safe or unsafe downgrade.")
	case u.MaxVersionLevel > current && u.UpgradeType != upgradeTypeUpgrade:
		return nil, invalidUpdate(u, "Can't downgrade to a newer version.")
	}
	switch u.Feature {
	case image.FeatureMetadataVersion:
		return metadataVersionUpdate(u, current)
	case image.FeatureKRaftVersion:
		return kraftVersionUpdate(u, current)
	}
	if u.Feature == image.FeatureEligibleLeaderReplicas && u.MaxVersionLevel >= 1 &&
		proposed[image.FeatureMetadataVersion] < metadataVersionELR {
		return nil, invalidUpdate(u, fmt.Sprintf("%s could not be set to %d because it depends on %s level %d",
			u.Feature, u.MaxVersionLevel, image.FeatureMetadataVersion, metadataVersionELR))
	}
	return featureRecord(u), nil
}

func featureRecord(u kmsg.UpdateFeaturesRequestFeatureUpdate) []recordschema.MetadataRecord {
	return []recordschema.MetadataRecord{&recordschema.FeatureLevelRecord{Name: u.Feature, FeatureLevel: u.MaxVersionLevel}}
}

// metadataVersionUpdate: records of a level are not readable below it, so there
// is no way down past 4.3-IV0.
func metadataVersionUpdate(u kmsg.UpdateFeaturesRequestFeatureUpdate, current int16) ([]recordschema.MetadataRecord, *kerrors.Error) {
	if u.MaxVersionLevel < current {
		why := "Refusing to perform the requested downgrade because it might delete metadata information."
		if u.UpgradeType == upgradeTypeUnsafeDowngrade {
			why = "Unsafe metadata downgrade is not supported in this version."
		}
		return nil, kerrors.New(kerrors.InvalidUpdateVersion, "Unsupported metadata.version downgrade from %d to %d. %s",
			current, u.MaxVersionLevel, why)
	}
	return featureRecord(u), nil
}

// kraftVersionUpdate: the level belongs to the quorum's own control records. A
// request for the current level succeeds, with a record to wait for.
func kraftVersionUpdate(u kmsg.UpdateFeaturesRequestFeatureUpdate, current int16) ([]recordschema.MetadataRecord, *kerrors.Error) {
	switch {
	case u.MaxVersionLevel == current && u.UpgradeType == upgradeTypeUpgrade:
		return []recordschema.MetadataRecord{&recordschema.NoOpRecord{}}, nil
	case u.MaxVersionLevel == current:
		return nil, nil
	case u.UpgradeType != upgradeTypeUpgrade:
		return nil, invalidUpdate(u, "Can't downgrade the version of this feature.")
	}
	return nil, invalidUpdate(u, "The quorum cannot be upgraded while it runs; format its nodes with a dynamic quorum.")
}

// whyNotSupported names a node that lacks a level; "" when all have it.
func (c *Core) whyNotSupported(name string, level int16) string {
	if why := lacks(level, fmt.Sprintf("Local controller %d", c.opts.NodeID), c.opts.Features[name]); why != "" {
		return why
	}
	for b := range c.now().Cluster.All() {
		if why := lacks(level, fmt.Sprintf("Broker %d", b.ID), b.Features[name]); why != "" {
			return why
		}
	}
	for ctl := range c.now().Cluster.Controllers() {
		if ctl.ID == c.opts.NodeID {
			continue
		}
		if why := lacks(level, fmt.Sprintf("Controller %d", ctl.ID), ctl.Features[name]); why != "" {
			return why
		}
	}
	for _, id := range c.opts.Voters {
		if _, ok := c.now().Cluster.Controller(id); !ok && id != c.opts.NodeID {
			return fmt.Sprintf("controller %d has not registered, and may not support this feature", id)
		}
	}
	return ""
}

func lacks(level int16, node string, r image.FeatureRange) string {
	switch {
	case level >= r.Min && level <= r.Max:
		return ""
	case r.Max == 0:
		return node + " does not support this feature."
	}
	if r.Min == r.Max {
		return fmt.Sprintf("%s only supports versions %d", node, r.Min)
	}
	return fmt.Sprintf("%s only supports versions %d-%d", node, r.Min, r.Max)
}
