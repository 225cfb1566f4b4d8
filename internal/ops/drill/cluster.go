package drill

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// requestTimeout bounds one administrative request.
const requestTimeout = 30 * time.Second

// applyTimeout bounds the wait until a broker has applied a setting.
const applyTimeout = 3 * time.Second

// Keys of the group configuration (KIP-848).
const (
	sessionKey   = "consumer.session.timeout.ms"
	heartbeatKey = "consumer.heartbeat.interval.ms"
)

// cluster is the administrative side of a drill.
type cluster struct {
	cl  *kgo.Client
	adm *kadm.Client
}

func connect(ctx context.Context, o Options) (*cluster, error) {
	cl, err := kgo.NewClient(o.secure(
		kgo.SeedBrokers(o.Bootstrap...), kgo.ClientID("drill"), kgo.RetryTimeout(requestTimeout),
		kgo.WithLogger(kgo.BasicLogger(io.Discard, kgo.LogLevelNone, nil)),
	)...)
	if err != nil {
		return nil, err
	}
	if err := cl.Ping(ctx); err != nil {
		cl.Close()
		return nil, fmt.Errorf("no broker answers: %w", err)
	}
	return &cluster{cl, kadm.NewClient(cl)}, nil
}

func (c *cluster) close() { c.cl.Close() }

// has848 reports whether every broker serves the KIP-848 heartbeat as clients
// use it (version 1, Kafka 4.0).
func (c *cluster) has848(ctx context.Context) (bool, error) {
	versions, err := c.adm.ApiVersions(ctx)
	if err != nil {
		return false, err
	}
	for _, b := range versions {
		if b.Err != nil {
			return false, b.Err
		}
		if v, ok := b.KeyMaxVersion(int16(kmsg.ConsumerGroupHeartbeat)); !ok || v < 1 {
			return false, nil
		}
	}
	return len(versions) > 0, nil
}

func (c *cluster) createTopic(parent context.Context, name string, o Options) ([16]byte, error) {
	ctx, cancel := context.WithTimeout(parent, requestTimeout)
	defer cancel()
	r, err := c.adm.CreateTopic(ctx, int32(o.Partitions), o.Replicas, nil, name)
	if err != nil {
		return [16]byte{}, fmt.Errorf("create the topic %s: %w", name, err)
	}
	return r.ID, nil
}

// groupTimeouts gives the group the drill's timeouts, which KIP-848 keeps on the
// broker, and reports those that are in force.
func (c *cluster) groupTimeouts(parent context.Context, group string, o Options, out *ProtocolResult) {
	ctx, cancel := context.WithTimeout(parent, requestTimeout)
	defer cancel()
	want := map[string]int64{}
	for _, kv := range []struct {
		key   string
		value int64
	}{{heartbeatKey, o.Heartbeat.Milliseconds()}, {sessionKey, o.Session.Milliseconds()}} {
		if err := c.alterGroup(ctx, group, kv.key, strconv.FormatInt(kv.value, 10)); err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("%s=%d refused: %v", kv.key, kv.value, err))
		} else {
			want[kv.key] = kv.value
		}
	}
	values, err := c.awaitGroupConfig(ctx, group, want)
	if err != nil {
		out.SessionMs, out.HeartbeatMs = -1, -1
		out.Notes = append(out.Notes, fmt.Sprintf("timeouts in force are not known: %v", err))
		return
	}
	out.SessionMs, out.HeartbeatMs = values[sessionKey], values[heartbeatKey]
}

// awaitGroupConfig reads the group's settings until the broker has heard of the
// new ones: the controller answers before brokers have applied them.
func (c *cluster) awaitGroupConfig(ctx context.Context, group string, want map[string]int64) (map[string]int64, error) {
	t := time.NewTicker(look)
	defer t.Stop()
	soon, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	for {
		values, err := c.groupConfig(ctx, group)
		if err != nil {
			return nil, err
		}
		applied := true
		for k, v := range want {
			applied = applied && values[k] == v
		}
		if applied {
			return values, nil
		}
		select {
		case <-soon.Done():
			return values, nil
		case <-t.C:
		}
	}
}

func (c *cluster) alterGroup(ctx context.Context, group, key, value string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	set := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	set.Name, set.Value = key, kmsg.StringPtr(value)
	res.Configs = append(res.Configs, set)
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			if r.ErrorMessage != nil {
				return fmt.Errorf("%s", *r.ErrorMessage)
			}
			return err
		}
	}
	return nil
}

func (c *cluster) groupConfig(ctx context.Context, group string) (map[string]int64, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{sessionKey: -1, heartbeatKey: -1}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return nil, err
		}
		for _, kv := range r.Configs {
			if _, ours := out[kv.Name]; !ours || kv.Value == nil {
				continue
			}
			if n, err := strconv.ParseInt(*kv.Value, 10, 64); err == nil {
				out[kv.Name] = n
			}
		}
	}
	return out, nil
}

func (c *cluster) ends(ctx context.Context, topic string, partitions int) ([]int64, error) {
	listed, err := c.adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("log ends of %s: %w", topic, err)
	}
	out := make([]int64, partitions)
	for p := range out {
		o, ok := listed.Lookup(topic, int32(p))
		if !ok || o.Err != nil {
			return nil, fmt.Errorf("log end of %s-%d: %w", topic, p, o.Err)
		}
		out[p] = o.Offset
	}
	return out, nil
}

// cleanUp deletes the drill's topic and group. The group may need a moment to
// be empty; what stays behind expires with the topic's offsets.
func (c *cluster) cleanUp(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	_, _ = c.adm.DeleteGroup(ctx, name)
	_, _ = c.adm.DeleteTopic(ctx, name)
}
