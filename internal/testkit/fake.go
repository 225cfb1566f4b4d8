package testkit

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// StartGuardedFake starts a cluster in process that checks rights. Everybody may do
// everything until DenyTopic.
func StartGuardedFake(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	var all []kfake.ACL
	for _, resource := range []kmsg.ACLResourceType{kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup, kmsg.ACLResourceTypeCluster} {
		name := "*"
		if resource == kmsg.ACLResourceTypeCluster {
			name = "kafka-cluster"
		}
		all = append(all, kfake.ACL{
			Resource: resource, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationAll, Allow: true,
		})
	}
	// Clients that do not authenticate are User:ANONYMOUS.
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.EnableACLs(), kfake.User("PLAIN", "ANONYMOUS", "unused", all...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// DenyTopic takes every right on a topic of a guarded fake away.
func DenyTopic(t testing.TB, c *kfake.Cluster, topic string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	acl := kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpAll).Deny("User:ANONYMOUS").DenyHosts("*")
	made, err := kadm.NewClient(cl).CreateACLs(t.Context(), acl)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range made {
		if m.Err != nil {
			t.Fatal(m.Err)
		}
	}
}

// FailedListing answers every partition of a ListOffsets request with an error: for
// control functions of a fake.
func FailedListing(req *kmsg.ListOffsetsRequest, cause *kerr.Error) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, cause.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
