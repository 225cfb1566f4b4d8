package image

import (
	"iter"
	"slices"

	"github.com/tidemark-io/tidemark/internal/types"
)

// FeatureRange is the levels of one feature that a node supports.
type FeatureRange struct{ Min, Max int16 }

// Broker is one broker's registration (BrokerRegistration).
type Broker struct {
	ID            int32
	Epoch         int64 // offset of its RegisterBrokerRecord
	IncarnationID types.UUID
	Endpoints     []types.Endpoint
	Features      map[string]FeatureRange
	Rack          *string
	Fenced        bool
	// InControlledShutdown says that the broker asked to leave.
	InControlledShutdown bool
	LogDirs              []types.UUID // sorted as Kafka sorts them; empty: unknown
	// CordonedLogDirs take no new replicas (KIP-1066); nil: not said yet.
	CordonedLogDirs []types.UUID
}

// HasOnlineDir reports whether a replica in dir counts as reachable: the
// reserved ids of KIP-858 (unassigned, migrating) do, a lost one does not.
func (b *Broker) HasOnlineDir(dir types.UUID) bool {
	switch dir {
	case types.LostDir:
		return false
	case types.UnassignedDir, types.ZeroUUID:
		return true
	}
	return len(b.LogDirs) == 0 || slices.Contains(b.LogDirs, dir)
}

// Endpoint finds a listener by name.
func (b *Broker) Endpoint(listener string) (types.Endpoint, bool) {
	for _, e := range b.Endpoints {
		if e.Listener == listener {
			return e, true
		}
	}
	return types.Endpoint{}, false
}

// Controller is one controller's registration (KIP-919).
type Controller struct {
	ID               int32
	IncarnationID    types.UUID
	ZkMigrationReady bool
	Endpoints        []types.Endpoint
	Features         map[string]FeatureRange
}

// Cluster is the set of registered nodes.
type Cluster struct {
	brokers     tree[int32, *Broker]
	controllers tree[int32, *Controller]
}

// Broker finds a registered broker, fenced or not.
func (c Cluster) Broker(id int32) (*Broker, bool) { return c.brokers.get(id) }

// All yields the brokers by id, fenced ones included.
func (c Cluster) All() iter.Seq[*Broker] { return c.brokers.values() }

// Len counts the registered brokers.
func (c Cluster) Len() int { return c.brokers.len() }

// Controller finds a registered controller.
func (c Cluster) Controller(id int32) (*Controller, bool) { return c.controllers.get(id) }

// Controllers yields the controllers by id.
func (c Cluster) Controllers() iter.Seq[*Controller] { return c.controllers.values() }
