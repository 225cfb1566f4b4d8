package telemetry

import "iter"

// Groups, on the node that coordinates them.
var (
	groupEpoch   = define("tidemark_group_epoch", gauge, "Epoch of the group: the generation of a classic one.", "group", "type")
	groupMembers = define("tidemark_group_members", gauge, "Members of the group.", "group", "type")
	groupState   = define("tidemark_group_state", gauge, "Always 1; the label says which state the group is in.", "group", "type", "state")
	rebalances   = define("tidemark_group_rebalances_total", counter, "Rebalances that came to their end, since this node coordinates the group.", "group", "type")
	rebalanceSec = define("tidemark_group_rebalance_seconds_total", counter, "Time from the reason for a rebalance to the assignment, summed over rebalances.", "group", "type")
	stoppedSec   = define("tidemark_group_partition_stopped_seconds_total", counter,
		"How long partitions had no owner, summed over partitions: a rebalance that takes 3 s and stops 10 partitions for 2 s each counts 20.", "group", "type")
	stoppedNow    = define("tidemark_group_partitions_stopped", gauge, "Partitions that had an owner and have none now.", "group", "type")
	staticWaitSec = define("tidemark_group_static_wait_seconds_total", counter,
		"How long the group waited for static members that were not heard of: until they came back, or were given up.", "group", "type")
)

// GroupSample is one group as its coordinator sees it.
type GroupSample struct {
	Group, Type, State                                      string
	Epoch                                                   int32
	Members                                                 int
	Rebalances                                              int64
	RebalanceSeconds, StoppedSeconds, StaticMemberWaitedSec float64
	StoppedPartitions                                       int
}

// CollectGroups walks the groups when scraped.
func (r *Registry) CollectGroups(all func() iter.Seq[GroupSample]) {
	metrics := []*metric{groupEpoch, groupMembers, groupState, rebalances, rebalanceSec, stoppedSec, stoppedNow, staticWaitSec}
	r.onScrape(metrics, nil, func(emit func(*metric, float64, ...string)) {
		for g := range all() {
			emit(groupEpoch, float64(g.Epoch), g.Group, g.Type)
			emit(groupMembers, float64(g.Members), g.Group, g.Type)
			emit(groupState, 1, g.Group, g.Type, g.State)
			emit(rebalances, float64(g.Rebalances), g.Group, g.Type)
			emit(rebalanceSec, g.RebalanceSeconds, g.Group, g.Type)
			emit(stoppedSec, g.StoppedSeconds, g.Group, g.Type)
			emit(stoppedNow, float64(g.StoppedPartitions), g.Group, g.Type)
			emit(staticWaitSec, g.StaticMemberWaitedSec, g.Group, g.Type)
		}
	})
}
