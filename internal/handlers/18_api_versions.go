package handlers

import (
	"maps"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/apis"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/controller"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/wire"
)

// softwareName is what a client's software name and version must look like
// (KIP-511, ApiVersionsRequest.isValid).
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// FeatureLevels are the features that a node shows in ApiVersions.
type FeatureLevels struct {
	Supported map[string]image.FeatureRange
	Finalized image.Features
	Epoch     int64 // offset of the image they come from
	KRaft     int16 // kraft.version is the quorum's own, in no image
}

// apiVersions answers ApiVersions (18), versions 0 to 4, on any listener. A
// version that is not known is answered in version 0 with UNSUPPORTED_VERSION
// and the range of this API alone, and the connection stays open (KIP-511).
// Below version 4 features whose minimum is 0 are left out: older clients take
// them for an error (KAFKA-17011).
func apiVersions(r *network.Request, l apis.Listener, features FeatureLevels) {
	h := r.Header
	if !serves(l, h.Key, h.Version) {
		r.Header.Version = 0
		r.Code = int16(kerrors.UnsupportedVersion)
		r.Respond(wire.UnsupportedAPIVersions(l))
		return
	}
	decoded, err := wire.DecodeRequest(h, r.Body)
	if err != nil {
		r.Close(err)
		return
	}
	req := decoded.(*kmsg.ApiVersionsRequest)
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.FinalizedFeaturesEpoch = -1
	if h.Version >= 3 && !(softwareName.MatchString(req.ClientSoftwareName) && softwareName.MatchString(req.ClientSoftwareVersion)) {
		resp.ErrorCode = int16(kerrors.InvalidRequest)
		r.Respond(resp)
		return
	}
	if h.Version >= 3 {
		r.Conn.SetClientSoftware(req.ClientSoftwareName, req.ClientSoftwareVersion)
	}
	for _, a := range apis.Advertised(l) {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = a.Key, a.Min, a.Max
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	addFeatures(resp, h.Version, features)
	r.Respond(resp)
}

func addFeatures(resp *kmsg.ApiVersionsResponse, version int16, f FeatureLevels) {
	for _, name := range slices.Sorted(maps.Keys(f.Supported)) {
		rng := f.Supported[name]
		if rng.Min == 0 && version < 4 {
			continue
		}
		s := kmsg.NewApiVersionsResponseSupportedFeature()
		s.Name, s.MinVersion, s.MaxVersion = name, rng.Min, rng.Max
		resp.SupportedFeatures = append(resp.SupportedFeatures, s)
	}
	for name, level := range f.Finalized.All() {
		if level == 0 {
			continue
		}
		ff := kmsg.NewApiVersionsResponseFinalizedFeature()
		ff.Name, ff.MinVersionLevel, ff.MaxVersionLevel = name, level, level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, ff)
	}
	if f.KRaft > 0 {
		ff := kmsg.NewApiVersionsResponseFinalizedFeature()
		ff.Name, ff.MinVersionLevel, ff.MaxVersionLevel = image.FeatureKRaftVersion, f.KRaft, f.KRaft
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, ff)
	}
	resp.FinalizedFeaturesEpoch = f.Epoch
}

func (b *Broker) features() FeatureLevels {
	im := b.d.Image()
	return FeatureLevels{Supported: controller.SupportedFeatures(), Finalized: im.Features, Epoch: im.Offset, KRaft: b.d.KRaftVersion()}
}
