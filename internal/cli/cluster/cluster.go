package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// Command returns the cluster command.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{Use: "cluster", Short: "Look at the cluster as a whole"}
	cmd.AddCommand(&cobra.Command{
		Use:   "describe",
		Short: "Show brokers, controller, metadata quorum and features",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return describe(cmd.Context(), a) },
	})
	return cmd
}

type description struct {
	ClusterID  string          `json:"cluster_id"`
	Controller int32           `json:"controller"`
	Brokers    []broker        `json:"brokers"`
	Quorum     *quorum         `json:"quorum,omitempty"`
	Features   []featureLevels `json:"features,omitempty"`
}

type broker struct {
	ID   int32  `json:"id"`
	Host string `json:"host"`
	Port int32  `json:"port"`
	Rack string `json:"rack,omitempty"`
}

type quorum struct {
	Leader        int32   `json:"leader"`
	LeaderEpoch   int32   `json:"leader_epoch"`
	HighWatermark int64   `json:"high_watermark"`
	Voters        []int32 `json:"voters"`
	Observers     []int32 `json:"observers"`
}

type featureLevels struct {
	Name  string `json:"name"`
	Level int16  `json:"level"`
	Max   int16  `json:"supported_max"`
}

func describe(parent context.Context, a *app.App) error {
	adm, err := a.Admin(parent)
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := a.Request(parent)
	defer cancel()
	meta, err := adm.BrokerMetadata(ctx)
	if err != nil {
		return app.Explain(err, "", "describe the cluster")
	}
	d := description{ClusterID: meta.Cluster, Controller: meta.Controller, Brokers: []broker{}}
	for _, b := range meta.Brokers {
		row := broker{ID: b.NodeID, Host: b.Host, Port: b.Port}
		if b.Rack != nil {
			row.Rack = *b.Rack
		}
		d.Brokers = append(d.Brokers, row)
	}
	slices.SortFunc(d.Brokers, func(x, y broker) int { return int(x.ID - y.ID) })
	d.Quorum = describeQuorum(ctx, adm)
	d.Features = features(ctx, adm)
	if a.JSON() {
		return a.Emit(d)
	}
	show(a, d)
	return nil
}

// describeQuorum is nil where the cluster does not answer DescribeQuorum.
func describeQuorum(ctx context.Context, adm *app.Admin) *quorum {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = "__cluster_metadata"
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, adm.Raw)
	if err != nil || kerr.ErrorForCode(resp.ErrorCode) != nil || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil
	}
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return nil
	}
	q := &quorum{Leader: p.LeaderID, LeaderEpoch: p.LeaderEpoch, HighWatermark: p.HighWatermark, Voters: []int32{}, Observers: []int32{}}
	for _, v := range p.CurrentVoters {
		q.Voters = append(q.Voters, v.ReplicaID)
	}
	for _, o := range p.Observers {
		q.Observers = append(q.Observers, o.ReplicaID)
	}
	return q
}

func features(ctx context.Context, adm *app.Admin) []featureLevels {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "tidemark-cli", "1"
	resp, err := req.RequestWith(ctx, adm.Raw)
	if err != nil || resp.ErrorCode != 0 {
		return nil
	}
	var out []featureLevels
	for _, s := range resp.SupportedFeatures {
		f := featureLevels{Name: s.Name, Max: s.MaxVersion}
		for _, l := range resp.FinalizedFeatures {
			if l.Name == s.Name {
				f.Level = l.MaxVersionLevel
			}
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(x, y featureLevels) int { return strings.Compare(x.Name, y.Name) })
	return out
}

func show(a *app.App, d description) {
	a.Printf("cluster %s\n", d.ClusterID)
	if q := d.Quorum; q != nil {
		a.Printf("metadata quorum: leader %d, epoch %d, voters %s, observers %s, high watermark %d\n",
			q.Leader, q.LeaderEpoch, app.Ints(q.Voters), app.Ints(q.Observers), q.HighWatermark)
	}
	for _, f := range d.Features {
		a.Printf("feature %s=%d (up to %d)\n", f.Name, f.Level, f.Max)
	}
	t := app.NewTable(">BROKER", "ADDRESS", "RACK")
	for _, b := range d.Brokers {
		rack := b.Rack
		if rack == "" {
			rack = "-"
		}
		t.Row(b.ID, fmt.Sprintf("%s:%d", b.Host, b.Port), rack)
	}
	a.Print(t)
}
