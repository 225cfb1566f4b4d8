package groups

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
)

// settled reports whether a group has so many members that own so many
// partitions between them and nothing is moving.
func settled(ctx context.Context, adm *kadm.Client, protocol, group string, members, parts int) bool {
	if protocol == "consumer" {
		described, err := adm.DescribeConsumerGroups(ctx, group)
		if g := described[group]; err == nil && g.Err == nil {
			return g.State == "Stable" && len(g.Members) == members && count(g.AssignedPartitions()) == parts
		}
		return false
	}
	described, err := adm.DescribeGroups(ctx, group)
	if g := described[group]; err == nil && g.Err == nil {
		return g.State == "Stable" && len(g.Members) == members && count(g.AssignedPartitions()) == parts
	}
	return false
}

func count(s kadm.TopicsSet) int {
	n := 0
	s.Each(func(string, int32) { n++ })
	return n
}
