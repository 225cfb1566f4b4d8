package controller

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// RegisterBrokerInput is a BrokerRegistration request.
type RegisterBrokerInput struct {
	NowMs int64
	Req   *kmsg.BrokerRegistrationRequest
	// NextOffset is the offset of the next record to be appended; it becomes the
	// broker epoch (the registration itself may land a little later, behind the
	// changes that clean up after the broker's last incarnation).
	NextOffset int64
}

// RegisterBroker registers a broker, fenced, or amends the registration of the
// same incarnation (ClusterControlManager.registerBroker; KIP-631, KIP-858,
// KIP-966 for unclean shutdown detection from v3 on).
func (c *Core) RegisterBroker(in RegisterBrokerInput) Result[*kmsg.BrokerRegistrationResponse] {
	resp := kmsg.NewPtrBrokerRegistrationResponse()
	resp.Version = in.Req.Version
	result := Result[*kmsg.BrokerRegistrationResponse]{Response: resp}
	existing, known := c.now().Cluster.Broker(in.Req.BrokerID)
	if err := c.checkRegistration(in, existing); err != nil {
		resp.ErrorCode = int16(err.Code)
		resp.BrokerEpoch = -1
		result.Refused = err.Message
		return result
	}
	p := c.newPlan()
	rec := registerRecord(in.Req)
	if known && existing.IncarnationID == types.UUID(in.Req.IncarnationID) {
		rec.Fenced, rec.InControlledShutdown, rec.BrokerEpoch = existing.Fenced, existing.InControlledShutdown, existing.Epoch
	} else {
		// A broker that restarted cleanly knows the epoch of its last life; one that
		// does not may have lost what it had not flushed.
		clean := in.Req.Version >= 3 && known && existing.Epoch == in.Req.PreviousBrokerEpoch
		c.planShutdown(p, in.Req.BrokerID, clean)
		rec.BrokerEpoch = in.NextOffset
	}
	// The registration comes last: were this cut short, the broker would register
	// again and the rest be done then. So the records need not be atomic.
	p.add(rec)
	resp.BrokerEpoch = rec.BrokerEpoch
	result.Records = p.records
	return result
}

func registerRecord(req *kmsg.BrokerRegistrationRequest) *recordschema.RegisterBrokerRecord {
	rec := &recordschema.RegisterBrokerRecord{
		BrokerID: req.BrokerID, IncarnationID: req.IncarnationID, Rack: req.Rack, Fenced: true,
	}
	for _, l := range req.Listeners {
		rec.EndPoints = append(rec.EndPoints, recordschema.NodeEndpoint{
			Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol,
		})
	}
	for _, f := range req.Features {
		rec.Features = append(rec.Features, recordschema.NodeFeature{
			Name: f.Name, MinSupportedVersion: f.MinSupportedVersion, MaxSupportedVersion: f.MaxSupportedVersion,
		})
	}
	for _, dir := range req.LogDirs {
		rec.LogDirs = append(rec.LogDirs, dir)
	}
	return rec
}

func (c *Core) checkRegistration(in RegisterBrokerInput, existing *image.Broker) *kerrors.Error {
	req := in.Req
	if c.opts.ClusterID != req.ClusterID {
		return kerrors.New(kerrors.InconsistentClusterID, "Expected cluster ID %s, but got cluster ID %s", c.opts.ClusterID, req.ClusterID)
	}
	if existing != nil && existing.IncarnationID != types.UUID(req.IncarnationID) &&
		c.hasSession(existing.ID, existing.Epoch, in.NowMs) {
		return kerrors.New(kerrors.DuplicateBrokerRegistration, "Another broker is registered with that broker id. If the broker "+
			"was recently restarted this should self-resolve once the heartbeat manager expires the broker's session.")
	}
	if req.IsMigratingZkBroker {
		return kerrors.New(kerrors.BrokerIDNotRegistered, "Controller does not support registering ZK brokers.")
	}
	for _, l := range req.Listeners {
		if l.Name == "" {
			return kerrors.New(kerrors.InvalidRegistration, "Broker listeners must be named.")
		}
	}
	if err := c.checkDirectories(req); err != nil {
		return err
	}
	return c.checkBrokerFeatures(req)
}

func (c *Core) checkDirectories(req *kmsg.BrokerRegistrationRequest) *kerrors.Error {
	if len(req.LogDirs) == 0 {
		return kerrors.New(kerrors.InvalidRegistration, "No directories specified in request")
	}
	seen := map[types.UUID]bool{}
	duplicate := false
	for _, raw := range req.LogDirs {
		dir := types.UUID(raw)
		if dir.Reserved() {
			return kerrors.New(kerrors.InvalidRegistration, "Reserved directory ID in request")
		}
		duplicate = duplicate || seen[dir]
		seen[dir] = true
	}
	if duplicate {
		return kerrors.New(kerrors.InvalidRegistration, "Duplicate directory ID in request")
	}
	for _, raw := range req.LogDirs {
		if owner, ok := c.dirOwner[raw]; ok && owner != req.BrokerID {
			return kerrors.New(kerrors.InvalidRegistration, "Broker %d is already registered with directory %s", owner, types.UUID(raw))
		}
	}
	return nil
}

// checkBrokerFeatures: the broker must support every finalized level.
func (c *Core) checkBrokerFeatures(req *kmsg.BrokerRegistrationRequest) *kerrors.Error {
	ranges := map[string]image.FeatureRange{}
	for _, f := range req.Features {
		ranges[f.Name] = image.FeatureRange{Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion}
		if err := supports(f.Name, ranges[f.Name], c.finalizedLevel(f.Name)); err != nil {
			return err
		}
	}
	if _, ok := ranges[image.FeatureMetadataVersion]; !ok {
		return kerrors.New(kerrors.InvalidRegistration, "Request features do not contain '%s'", image.FeatureMetadataVersion)
	}
	for name, level := range c.now().Features.All() {
		if _, ok := ranges[name]; !ok {
			if err := supports(name, image.FeatureRange{}, level); err != nil {
				return err
			}
		}
	}
	if _, ok := ranges[image.FeatureKRaftVersion]; !ok && c.opts.KRaftVersion != 0 {
		return supports(image.FeatureKRaftVersion, image.FeatureRange{}, c.opts.KRaftVersion)
	}
	return nil
}

func supports(feature string, r image.FeatureRange, level int16) *kerrors.Error {
	if level >= r.Min && level <= r.Max {
		return nil
	}
	return kerrors.New(kerrors.UnsupportedVersion, "Unable to register because the broker does not support finalized version %d of %s. "+
		"The broker wants a version between %d and %d, inclusive.", level, feature, r.Min, r.Max)
}

// finalizedLevel is the level of any feature, kraft.version included.
func (c *Core) finalizedLevel(name string) int16 {
	if name == image.FeatureKRaftVersion {
		return c.opts.KRaftVersion
	}
	return c.now().Features.Level(name)
}

// planShutdown takes the last incarnation of a broker out of ISRs, and after an
// unclean shutdown out of ELRs too (KIP-966).
func (c *Core) planShutdown(p *plan, broker int32, clean bool) {
	if c.now().Features.ELREnabled() && !clean {
		u := leaderUpdate{remove: recordschema.NoLeader, add: recordschema.NoLeader, unclean: broker}
		p.updateLeaders(u, c.index.isr[broker])
		p.updateLeaders(u, c.index.elr[broker])
		return
	}
	p.updateLeaders(leaderUpdate{remove: broker, add: recordschema.NoLeader, unclean: recordschema.NoLeader}, c.index.isr[broker])
}

// planFenced takes a broker out of ISRs and leaderships and fences it.
func (c *Core) planFenced(p *plan, b *image.Broker) {
	p.updateLeaders(leaderUpdate{remove: b.ID, add: recordschema.NoLeader, unclean: recordschema.NoLeader}, c.index.isr[b.ID])
	if !b.Fenced {
		p.add(&recordschema.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, Fenced: recordschema.FencingFence})
	}
}

// UnregisterBroker drops a registration for good (KIP-746).
func (c *Core) UnregisterBroker(req *kmsg.UnregisterBrokerRequest) Result[*kmsg.UnregisterBrokerResponse] {
	resp := kmsg.NewPtrUnregisterBrokerResponse()
	resp.Version = req.Version
	b, ok := c.now().Cluster.Broker(req.BrokerID)
	if !ok {
		resp.ErrorCode = int16(kerrors.BrokerIDNotRegistered)
		resp.ErrorMessage = kmsg.StringPtr(fmt.Sprintf("Broker ID %d is not currently registered", req.BrokerID))
		return Result[*kmsg.UnregisterBrokerResponse]{Response: resp}
	}
	p := c.newPlan()
	u := leaderUpdate{remove: b.ID, add: recordschema.NoLeader, unclean: recordschema.NoLeader}
	p.updateLeaders(u, c.index.isr[b.ID])
	p.updateLeaders(u, c.index.elr[b.ID])
	p.add(&recordschema.UnregisterBrokerRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch})
	return Result[*kmsg.UnregisterBrokerResponse]{Records: p.records, Response: resp}
}

// RegisterController records a controller's endpoints and features (KIP-919).
func (c *Core) RegisterController(req *kmsg.ControllerRegistrationRequest) Result[*kmsg.ControllerRegistrationResponse] {
	resp := kmsg.NewPtrControllerRegistrationResponse()
	resp.Version = req.Version
	rec := &recordschema.RegisterControllerRecord{ControllerID: req.ControllerID, IncarnationID: req.IncarnationID}
	for _, l := range req.Listeners {
		rec.EndPoints = append(rec.EndPoints, recordschema.NodeEndpoint{
			Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol,
		})
	}
	for _, f := range req.Features {
		rec.Features = append(rec.Features, recordschema.NodeFeature{
			Name: f.Name, MinSupportedVersion: f.MinSupportedVersion, MaxSupportedVersion: f.MaxSupportedVersion,
		})
	}
	return Result[*kmsg.ControllerRegistrationResponse]{
		Records: []recordschema.MetadataRecord{rec}, Response: resp, Atomic: true,
	}
}

// checkBrokerEpoch: requests of an earlier incarnation are refused.
func (c *Core) checkBrokerEpoch(id int32, epoch int64) *kerrors.Error {
	b, ok := c.now().Cluster.Broker(id)
	if !ok {
		return kerrors.New(kerrors.StaleBrokerEpoch, "No broker registration found for broker id %d", id)
	}
	if b.Epoch != epoch {
		return kerrors.New(kerrors.StaleBrokerEpoch, "Expected broker epoch %d, but got broker epoch %d", b.Epoch, epoch)
	}
	return nil
}

// afterBroker keeps the soft state in step with the registrations.
func (c *Core) afterBroker(rec recordschema.MetadataRecord, offset int64, before *image.Broker) {
	switch r := rec.(type) {
	case *recordschema.RegisterBrokerRecord:
		c.registeredAt[r.BrokerID] = offset
		c.moveDirs(r.BrokerID, before)
		if before == nil || before.Epoch != r.BrokerEpoch {
			c.progress[r.BrokerID] = &brokerProgress{metadataOffset: -1, shutdownOffset: -1}
			if before != nil {
				delete(c.contacts, brokerSession{r.BrokerID, before.Epoch})
			}
		}
	case *recordschema.UnregisterBrokerRecord:
		delete(c.registeredAt, r.BrokerID)
		delete(c.progress, r.BrokerID)
		delete(c.contacts, brokerSession{r.BrokerID, r.BrokerEpoch})
		c.moveDirs(r.BrokerID, before)
	case *recordschema.BrokerRegistrationChangeRecord:
		c.moveDirs(r.BrokerID, before)
		if r.Fenced == recordschema.FencingFence {
			// A fenced broker has no session: a new incarnation may register at once.
			delete(c.contacts, brokerSession{r.BrokerID, r.BrokerEpoch})
			c.progress[r.BrokerID].shutdownOffset = -1
		}
	}
}

func (c *Core) moveDirs(id int32, before *image.Broker) {
	if before != nil {
		for _, dir := range before.LogDirs {
			if c.dirOwner[dir] == id {
				delete(c.dirOwner, dir)
			}
		}
	}
	if now, ok := c.now().Cluster.Broker(id); ok {
		for _, dir := range now.LogDirs {
			c.dirOwner[dir] = id
		}
	}
}

// Sessions.

func (c *Core) expiresMs(contactMs int64) int64 { return contactMs + c.opts.SessionTimeoutMs }

// hasSession reports whether a broker may still be alive. The broker with this
// node's own id is part of this process, which holds the locks of its data
// folders: as long as it has not said a word to this core, its last life is
// over, and it may register again at once. Kafka makes it wait for the timeout.
func (c *Core) hasSession(id int32, epoch, nowMs int64) bool {
	if id == c.opts.NodeID && !c.localHeard {
		return false
	}
	at, ok := c.contacts[brokerSession{id, epoch}]
	return ok && nowMs <= c.expiresMs(at)
}

// oldestSession returns the session that ends first; ties go to the lower id.
func (c *Core) oldestSession() (s brokerSession, contactMs int64, ok bool) {
	for candidate, at := range c.contacts {
		if !ok || cmp.Or(cmp.Compare(at, contactMs), cmp.Compare(candidate.id, s.id)) < 0 {
			s, contactMs, ok = candidate, at, true
		}
	}
	return s, contactMs, ok
}

// fenceExpired fences the broker whose session ended first. Brokers are fenced
// one at a time, so that the effect of one is seen by the next.
func (c *Core) fenceExpired(nowMs int64) ([]recordschema.MetadataRecord, bool) {
	s, at, ok := c.oldestSession()
	if !ok || nowMs <= c.expiresMs(at) {
		return nil, false
	}
	b, ok := c.now().Cluster.Broker(s.id)
	if !ok || b.Epoch != s.epoch || b.Fenced {
		delete(c.contacts, s)
		return nil, true
	}
	// The session is forgotten when the record below is replayed: were it not
	// appended, the next tick would try again.
	p := c.newPlan()
	c.planFenced(p, b)
	return p.records, true
}

// dirsIn returns the broker's directories that are, or are not, among ids.
func dirsIn(dirs []types.UUID, ids [][16]byte, want bool) []types.UUID {
	var out []types.UUID
	for _, dir := range dirs {
		if slices.Contains(ids, [16]byte(dir)) == want {
			out = append(out, dir)
		}
	}
	return out
}
