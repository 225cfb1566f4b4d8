package handlers

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/apis"
	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/controller"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/quorum"
	"github.com/tidemark-io/tidemark/internal/quorumcontroller"
	"github.com/tidemark-io/tidemark/internal/types"
)

// commandTimeout bounds a controller command that has no timeout of its own.
const commandTimeout = 30 * time.Second

// ControllerDeps is what the handlers of the controller listener call.
type ControllerDeps struct {
	NodeID    int32
	ClusterID string
	Config    *config.ServerConfig
	Image     func() *image.Image
	Shell     *quorumcontroller.Shell
	Quorum    *quorum.Node
	// KRaftVersion is the quorum's kraft.version: 1 when its voters have
	// directory ids (KIP-853).
	KRaftVersion func() int16
	Logger       *slog.Logger
}

// Controller answers the requests of the controller listener: brokers that
// register and report, forwarded admin requests, and the metadata log itself.
type Controller struct {
	d     ControllerDeps
	table map[int16]handler
}

// NewController returns the handler of the controller listener.
func NewController(d ControllerDeps) *Controller {
	c := &Controller{d: d}
	c.table = map[int16]handler{
		19: on(c.createTopics),
		32: on(c.describeConfigs),
		37: on(c.createPartitions),
		55: on(c.describeQuorum),
		59: on(c.fetchSnapshot),
		60: on(c.describeCluster),
		62: on(c.registerBroker),
		63: on(c.brokerHeartbeat),
	}
	c.addCommands()
	return c
}

// addCommands adds the requests that are one call of the core each.
func (c *Controller) addCommands() {
	c.table[20] = command(c, "DeleteTopics", (*controller.Core).DeleteTopics)
	c.table[33] = command(c, "AlterConfigs", (*controller.Core).AlterConfigs)
	c.table[43] = command(c, "ElectLeaders", (*controller.Core).ElectLeaders)
	c.table[44] = command(c, "IncrementalAlterConfigs", (*controller.Core).IncrementalAlterConfigs)
	c.table[46] = command(c, "ListPartitionReassignments", (*controller.Core).ListPartitionReassignments)
	c.table[56] = command(c, "AlterPartition", (*controller.Core).AlterPartition)
	c.table[57] = command(c, "UpdateFeatures", (*controller.Core).UpdateFeatures)
	c.table[64] = command(c, "UnregisterBroker", (*controller.Core).UnregisterBroker)
	c.table[67] = command(c, "AllocateProducerIds", (*controller.Core).AllocateProducerIDs)
	c.table[70] = command(c, "ControllerRegistration", (*controller.Core).RegisterController)
	c.table[73] = command(c, "AssignReplicasToDirs", (*controller.Core).AssignReplicasToDirs)
}

// command adapts a method of the core that takes just the request.
func command[R kmsg.Request, S kmsg.Response](c *Controller, name string, run func(*controller.Core, R) controller.Result[S]) handler {
	return func(ctx context.Context, _ *network.Request, req kmsg.Request) kmsg.Response {
		return submit(ctx, c, name, req, func(core *controller.Core, _ quorumcontroller.Input) controller.Result[S] {
			return run(core, req.(R))
		})
	}
}

// submit runs a command on the active controller and answers when it is
// committed; an error becomes the API's own error answer.
func submit[S kmsg.Response](ctx context.Context, c *Controller, name string, req kmsg.Request, run func(*controller.Core, quorumcontroller.Input) controller.Result[S]) kmsg.Response {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	resp, err := quorumcontroller.Submit(ctx, c.d.Shell, name, run)
	if err != nil {
		return errorResponse(req, kerrors.CodeOf(err))
	}
	return resp
}

// Handle implements network.Handler.
func (c *Controller) Handle(ctx context.Context, r *network.Request) {
	switch kmsg.Key(r.Header.Key) {
	case kmsg.ApiVersions:
		im := c.d.Image()
		apiVersions(r, apis.Controller, FeatureLevels{Supported: controller.SupportedFeatures(), Finalized: im.Features, Epoch: im.Offset, KRaft: c.d.KRaftVersion()})
	case kmsg.Fetch:
		c.fetch(ctx, r)
	default:
		serve(ctx, r, c.table, apis.Controller)
	}
}

func (c *Controller) createTopics(ctx context.Context, _ *network.Request, req *kmsg.CreateTopicsRequest) kmsg.Response {
	d := c.describer()
	return submit(ctx, c, "CreateTopics", req, func(core *controller.Core, in quorumcontroller.Input) controller.Result[*kmsg.CreateTopicsResponse] {
		return core.CreateTopics(controller.CreateTopicsInput{
			Req: req, NewID: newID, Random: randomSeed(),
			DescribeConfigs: func(_ string, overrides map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
				return d.createdConfigs(overrides)
			},
		})
	})
}

func (c *Controller) createPartitions(ctx context.Context, _ *network.Request, req *kmsg.CreatePartitionsRequest) kmsg.Response {
	return submit(ctx, c, "CreatePartitions", req, func(core *controller.Core, in quorumcontroller.Input) controller.Result[*kmsg.CreatePartitionsResponse] {
		return core.CreatePartitions(controller.CreatePartitionsInput{Req: req, Random: randomSeed(), NowMs: time.Now().UnixMilli()})
	})
}

func (c *Controller) registerBroker(ctx context.Context, _ *network.Request, req *kmsg.BrokerRegistrationRequest) kmsg.Response {
	return submit(ctx, c, "BrokerRegistration", req, func(core *controller.Core, in quorumcontroller.Input) controller.Result[*kmsg.BrokerRegistrationResponse] {
		return core.RegisterBroker(controller.RegisterBrokerInput{NowMs: in.NowMs, Req: req, NextOffset: in.NextOffset})
	})
}

func (c *Controller) brokerHeartbeat(ctx context.Context, _ *network.Request, req *kmsg.BrokerHeartbeatRequest) kmsg.Response {
	return submit(ctx, c, "BrokerHeartbeat", req, func(core *controller.Core, in quorumcontroller.Input) controller.Result[*kmsg.BrokerHeartbeatResponse] {
		return core.BrokerHeartbeat(controller.BrokerHeartbeatInput{NowMs: in.NowMs, Req: req, NextOffset: in.NextOffset})
	})
}

func (c *Controller) describer() configDescriber {
	return configDescriber{nodeID: c.d.NodeID, static: c.d.Config.Static, im: c.d.Image()}
}

// describeConfigs answers like a broker's, from the controller's own settings.
func (c *Controller) describeConfigs(_ context.Context, _ *network.Request, req *kmsg.DescribeConfigsRequest) kmsg.Response {
	return c.describer().describe(req)
}

// describeCluster lists the controllers (endpoint type 2) for tools that
// bootstrap from the controller listener (KIP-919).
func (c *Controller) describeCluster(_ context.Context, r *network.Request, req *kmsg.DescribeClusterRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterAuthorizedOperations = noOperations
	if err := checkEndpointType(r.Header.Version, req.EndpointType, endpointControllers); err != nil {
		resp.ErrorCode, resp.ErrorMessage = code(err), message(err)
		return resp
	}
	resp.EndpointType, resp.ClusterID, resp.ControllerID = endpointControllers, c.d.ClusterID, c.d.Quorum.Status().LeaderID
	for ctl := range c.d.Image().Cluster.Controllers() {
		for _, e := range ctl.Endpoints {
			if e.Listener == r.Conn.Listener() {
				out := kmsg.NewDescribeClusterResponseBroker()
				out.NodeID, out.Host, out.Port = ctl.ID, e.Host, e.Port
				resp.Brokers = append(resp.Brokers, out)
			}
		}
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	return resp
}

// newID draws a topic id. crypto/rand does not fail on a supported system.
func newID() types.UUID {
	id, err := types.NewUUID(rand.Reader)
	if err != nil {
		panic(err)
	}
	return id
}

func randomSeed() uint64 {
	id := newID()
	var n uint64
	for _, b := range id[8:] {
		n = n<<8 | uint64(b)
	}
	return n
}
