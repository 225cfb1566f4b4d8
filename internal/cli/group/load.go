package group

import (
	"context"
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// load asks a group's coordinator what the group is. Both describe requests
// answer only for their own type; the KIP-848 one goes first because the classic
// one may call a living KIP-848 group dead (case C034).
func load(ctx context.Context, adm *app.Admin, name string) (view, error) {
	v, err := askConsumer(ctx, adm, name)
	if err == nil {
		return v, nil
	}
	if !errors.Is(err, kerr.GroupIDNotFound) && !errors.Is(err, kerr.UnsupportedVersion) && !unsupported(err) {
		return view{}, app.Explain(err, "", "describe group %s", name)
	}
	classic, err := adm.DescribeGroups(ctx, name)
	if err != nil {
		return view{}, app.Explain(err, "", "describe group %s", name)
	}
	g, ok := classic[name]
	if ok && g.Err == nil && g.State != "Dead" {
		return fromClassic(g), nil
	}
	if ok && g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) {
		return view{}, app.Explain(g.Err, g.ErrMessage, "describe group %s", name)
	}
	return view{}, absent(ctx, adm, name)
}

// askConsumer asks for a KIP-848 group.
func askConsumer(ctx context.Context, adm *app.Admin, name string) (view, error) {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{name}
	for _, shard := range adm.Raw.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return view{}, shard.Err
		}
		for _, g := range shard.Resp.(*kmsg.ConsumerGroupDescribeResponse).Groups {
			if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
				return view{}, err
			}
			if err := nameTopics(ctx, adm, &g); err != nil {
				return view{}, err
			}
			return fromConsumer(g, shard.Meta.NodeID), nil
		}
	}
	return view{}, kerr.GroupIDNotFound
}

// nameTopics fills in the names of topics that an answer has by id only.
func nameTopics(ctx context.Context, adm *app.Admin, g *kmsg.ConsumerGroupDescribeResponseGroup) error {
	var names map[kadm.TopicID]string
	for i := range g.Members {
		m := &g.Members[i]
		for _, list := range [][]kmsg.AssignmentTopicPartition{m.Assignment.TopicPartitions, m.TargetAssignment.TopicPartitions} {
			for j := range list {
				if list[j].Topic != "" {
					continue
				}
				if names == nil {
					topics, err := adm.ListTopicsWithInternal(ctx)
					if err != nil {
						return err
					}
					names = map[kadm.TopicID]string{}
					for _, t := range topics {
						names[t.ID] = t.Topic
					}
				}
				list[j].Topic = names[list[j].TopicID]
			}
		}
	}
	return nil
}

// unsupported says that the cluster is older than a request; franz-go has an
// error of its own for that, and does not export it.
func unsupported(err error) bool {
	return strings.Contains(err.Error(), "broker is too old")
}

// absent explains why neither describe request knows a group: it is of another
// type, or not there.
func absent(ctx context.Context, adm *app.Admin, name string) error {
	groups, err := adm.ListGroups(ctx)
	if g, ok := groups[name]; ok && err == nil {
		return app.Failed("group %s is a %s group in state %s", name, g.GroupType, g.State).
			Fix("this command knows classic and consumer groups")
	}
	return app.Explain(kerr.GroupIDNotFound, "", "describe group %s", name)
}
