package handlers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/apis"
	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/fetchsession"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/replica"
	"github.com/tidemark-io/tidemark/internal/telemetry"
	"github.com/tidemark-io/tidemark/internal/wire"
)

// Forwarder sends a request to the active controller and waits for its answer.
type Forwarder interface {
	Send(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
	// Forward is Send that keeps the version of the request.
	Forward(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
}

// ProducerIDs hands out producer ids that no other producer has.
type ProducerIDs interface {
	Next(ctx context.Context) (int64, error)
}

// BrokerDeps is what the handlers of broker listeners call.
type BrokerDeps struct {
	NodeID      int32
	ClusterID   string
	Config      *config.ServerConfig
	Image       func() *image.Image // newest published metadata
	Replicas    *replica.Manager
	Sessions    *fetchsession.Cache
	Controller  Forwarder
	ProducerIDs ProducerIDs
	Offsets     Offsets
	Groups      Groups
	NowMs       func() int64
	// AwaitMetadata waits until Image contains offset, so that a client that was
	// told of a change sees it here.
	AwaitMetadata func(ctx context.Context, offset int64) error
	// KRaftVersion is the quorum's kraft.version.
	KRaftVersion func() int16
	Topics       *telemetry.Topics
	Logger       *slog.Logger
}

// Broker answers the requests of broker listeners.
type Broker struct {
	d        BrokerDeps
	table    map[int16]handler
	produces sync.Pool // *produceCall
	topics   topicCreations

	sessionsMu sync.Mutex // guards d.Sessions, a pure core
}

// handler answers a decoded request; it runs on the connection's goroutine, so
// the next request of that connection waits for it.
type handler func(ctx context.Context, r *network.Request, req kmsg.Request) kmsg.Response

// NewBroker returns the handler of broker listeners.
func NewBroker(d BrokerDeps) *Broker {
	b := &Broker{d: d}
	b.topics.inFlight = map[string]chan struct{}{}
	b.table = map[int16]handler{
		2:  on(b.listOffsets),
		3:  on(b.metadata),
		8:  on(b.offsetCommit),
		9:  on(b.offsetFetch),
		10: on(b.findCoordinator),
		11: later(b.joinGroup),
		12: on(b.heartbeat),
		13: on(b.leaveGroup),
		14: later(b.syncGroup),
		15: on(b.describeGroups),
		16: on(b.listGroups),
		19: b.forward,
		20: b.forward,
		21: on(b.deleteRecords),
		22: on(b.initProducerID),
		23: on(b.offsetForLeaderEpoch),
		32: on(b.describeConfigs),
		33: on(b.alterConfigs),
		35: on(b.describeLogDirs),
		37: b.forward,
		42: on(b.deleteGroups),
		43: b.forward,
		44: on(b.incrementalAlterConfigs),
		46: b.forward,
		47: on(b.offsetDelete),
		55: b.forward,
		57: b.forward,
		60: on(b.describeCluster),
		61: on(b.describeProducers),
		64: b.forward,
		68: on(b.consumerGroupHeartbeat),
		69: on(b.consumerGroupDescribe),
		74: on(b.listConfigResources),
		75: on(b.describeTopicPartitions),
	}
	return b
}

// on adapts a handler of one request type to the table.
func on[R kmsg.Request, S kmsg.Response](h func(context.Context, *network.Request, R) S) handler {
	return func(ctx context.Context, r *network.Request, req kmsg.Request) kmsg.Response {
		return h(ctx, r, req.(R))
	}
}

// later adapts a handler that answers by itself.
func later[R kmsg.Request](h func(context.Context, *network.Request, R)) handler {
	return func(ctx context.Context, r *network.Request, req kmsg.Request) kmsg.Response {
		h(ctx, r, req.(R))
		return answersLater
	}
}

// answersLater is what a handler returns that answers by itself.
var answersLater kmsg.Response = &kmsg.ApiVersionsResponse{}

// Handle implements network.Handler. Produce and Fetch return before they are
// answered, so that the waits of pipelined requests overlap (design D10), and so
// do requests that wait for other members of a group; everything else is answered before the next request of the connection starts.
func (b *Broker) Handle(ctx context.Context, r *network.Request) {
	switch kmsg.Key(r.Header.Key) {
	case kmsg.Produce:
		b.produce(ctx, r)
		return
	case kmsg.Fetch:
		b.fetch(ctx, r)
		return
	case kmsg.ApiVersions:
		apiVersions(r, apis.Broker, b.features())
		return
	}
	serve(ctx, r, b.table, apis.Broker)
}

// serve decodes a request and answers it from a table.
func serve(ctx context.Context, r *network.Request, table map[int16]handler, l apis.Listener) {
	h, ok := table[r.Header.Key]
	if !ok || !serves(l, r.Header.Key, r.Header.Version) {
		r.Close(fmt.Errorf("%w: %s version %d on this listener", wire.ErrUnsupportedVersion, kmsg.NameForKey(r.Header.Key), r.Header.Version))
		return
	}
	req, err := wire.DecodeRequest(r.Header, r.Body)
	if err != nil {
		r.Close(err)
		return
	}
	resp := h(ctx, r, req)
	if resp == nil {
		r.Close(errors.New("no answer for this request"))
		return
	}
	if resp != answersLater {
		r.Respond(resp)
	}
}

// ptr returns a pointer to v, for the protocol's nullable fields.
func ptr[T any](v T) *T { return &v }

// message returns the error message field for err: nil without error.
func message(err error) *string {
	if err == nil {
		return nil
	}
	return ptr(kerrors.MessageOf(err))
}

// code returns the protocol code of err.
func code(err error) int16 { return int16(kerrors.CodeOf(err)) }

// serves reports whether a listener of kind l answers a version of an API.
func serves(l apis.Listener, key, version int16) bool {
	a, ok := apis.ByKey(key)
	return ok && a.On(l) && a.Supports(version)
}
