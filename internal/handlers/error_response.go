package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// errorResponse is the answer that carries one error for everything asked, in
// the form each API has for that (getErrorResponse of Kafka's requests). A test
// holds that every API of the controller listener and every forwarded one is in
// errorForms: without a form the answer would say that all is well.
func errorResponse(req kmsg.Request, c kerrors.Code) kmsg.Response {
	resp := req.ResponseKind()
	if fill, ok := errorForms[kmsg.Key(req.Key())]; ok {
		fill(req, resp, c)
	}
	return resp
}

// errorForm puts one error into a response wherever the API has a place for it.
type errorForm func(kmsg.Request, kmsg.Response, kerrors.Code)

var errorForms = map[kmsg.Key]errorForm{
	kmsg.CreateTopics:            form(createTopicsError),
	kmsg.DeleteTopics:            form(deleteTopicsError),
	kmsg.CreatePartitions:        form(createPartitionsError),
	kmsg.DescribeConfigs:         form(describeConfigsError),
	kmsg.AlterConfigs:            form(alterConfigsError),
	kmsg.IncrementalAlterConfigs: form(incrementalAlterConfigsError),
	kmsg.ElectLeaders:            form(electLeadersError),

	kmsg.Fetch:         topCode(func(r *kmsg.FetchResponse) *int16 { return &r.ErrorCode }),
	kmsg.FetchSnapshot: topCode(func(r *kmsg.FetchSnapshotResponse) *int16 { return &r.ErrorCode }),
	kmsg.ListPartitionReassignments: topError(func(r *kmsg.ListPartitionReassignmentsResponse) (*int16, **string) {
		return &r.ErrorCode, &r.ErrorMessage
	}),
	kmsg.DescribeQuorum:         topError(func(r *kmsg.DescribeQuorumResponse) (*int16, **string) { return &r.ErrorCode, &r.ErrorMessage }),
	kmsg.DescribeCluster:        topError(func(r *kmsg.DescribeClusterResponse) (*int16, **string) { return &r.ErrorCode, &r.ErrorMessage }),
	kmsg.UpdateFeatures:         topError(func(r *kmsg.UpdateFeaturesResponse) (*int16, **string) { return &r.ErrorCode, &r.ErrorMessage }),
	kmsg.UnregisterBroker:       topError(func(r *kmsg.UnregisterBrokerResponse) (*int16, **string) { return &r.ErrorCode, &r.ErrorMessage }),
	kmsg.ControllerRegistration: topError(func(r *kmsg.ControllerRegistrationResponse) (*int16, **string) { return &r.ErrorCode, &r.ErrorMessage }),
	kmsg.ApiVersions:            topCode(func(r *kmsg.ApiVersionsResponse) *int16 { return &r.ErrorCode }),
	kmsg.BrokerRegistration:     topCode(func(r *kmsg.BrokerRegistrationResponse) *int16 { return &r.ErrorCode }),
	kmsg.BrokerHeartbeat:        topCode(func(r *kmsg.BrokerHeartbeatResponse) *int16 { return &r.ErrorCode }),
	kmsg.AlterPartition:         topCode(func(r *kmsg.AlterPartitionResponse) *int16 { return &r.ErrorCode }),
	kmsg.AllocateProducerIDs:    topCode(func(r *kmsg.AllocateProducerIDsResponse) *int16 { return &r.ErrorCode }),
	kmsg.AssignReplicasToDirs:   topCode(func(r *kmsg.AssignReplicasToDirsResponse) *int16 { return &r.ErrorCode }),
}

// form adapts a function of one API's own types.
func form[Q kmsg.Request, R kmsg.Response](fill func(Q, R, kerrors.Code)) errorForm {
	return func(req kmsg.Request, resp kmsg.Response, c kerrors.Code) { fill(req.(Q), resp.(R), c) }
}

// topCode is the form of an API with one error code for the whole answer.
func topCode[R kmsg.Response](at func(R) *int16) errorForm {
	return func(_ kmsg.Request, resp kmsg.Response, c kerrors.Code) { *at(resp.(R)) = int16(c) }
}

// topError is topCode for an API that has words beside the code.
func topError[R kmsg.Response](at func(R) (*int16, **string)) errorForm {
	return func(_ kmsg.Request, resp kmsg.Response, c kerrors.Code) {
		errorCode, words := at(resp.(R))
		*errorCode, *words = int16(c), ptr(c.Description())
	}
}

func createTopicsError(req *kmsg.CreateTopicsRequest, resp *kmsg.CreateTopicsResponse, c kerrors.Code) {
	for _, t := range req.Topics {
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic, out.ErrorCode, out.ErrorMessage = t.Topic, int16(c), ptr(c.Description())
		resp.Topics = append(resp.Topics, out)
	}
}

// deleteTopicsError answers names (up to version 5) and names or ids (from 6 on).
func deleteTopicsError(req *kmsg.DeleteTopicsRequest, resp *kmsg.DeleteTopicsResponse, c kerrors.Code) {
	for _, name := range req.TopicNames {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.ErrorCode = ptr(name), int16(c)
		resp.Topics = append(resp.Topics, out)
	}
	for _, t := range req.Topics {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID, out.ErrorCode = t.Topic, t.TopicID, int16(c)
		resp.Topics = append(resp.Topics, out)
	}
}

func createPartitionsError(req *kmsg.CreatePartitionsRequest, resp *kmsg.CreatePartitionsResponse, c kerrors.Code) {
	for _, t := range req.Topics {
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic, out.ErrorCode, out.ErrorMessage = t.Topic, int16(c), ptr(c.Description())
		resp.Topics = append(resp.Topics, out)
	}
}

func describeConfigsError(req *kmsg.DescribeConfigsRequest, resp *kmsg.DescribeConfigsResponse, c kerrors.Code) {
	for _, r := range req.Resources {
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		out.ErrorCode, out.ErrorMessage = int16(c), ptr(c.Description())
		resp.Resources = append(resp.Resources, out)
	}
}

func alterConfigsError(req *kmsg.AlterConfigsRequest, resp *kmsg.AlterConfigsResponse, c kerrors.Code) {
	for _, r := range req.Resources {
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		out.ErrorCode, out.ErrorMessage = int16(c), ptr(c.Description())
		resp.Resources = append(resp.Resources, out)
	}
}

func incrementalAlterConfigsError(req *kmsg.IncrementalAlterConfigsRequest, resp *kmsg.IncrementalAlterConfigsResponse, c kerrors.Code) {
	for _, r := range req.Resources {
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		out.ErrorCode, out.ErrorMessage = int16(c), ptr(c.Description())
		resp.Resources = append(resp.Resources, out)
	}
}

// electLeadersError fills both places: version 0 has no code for the whole answer.
func electLeadersError(req *kmsg.ElectLeadersRequest, resp *kmsg.ElectLeadersResponse, c kerrors.Code) {
	resp.ErrorCode = int16(c)
	for _, t := range req.Topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			result := kmsg.NewElectLeadersResponseTopicPartition()
			result.Partition, result.ErrorCode, result.ErrorMessage = p, int16(c), ptr(c.Description())
			out.Partitions = append(out.Partitions, result)
		}
		resp.Topics = append(resp.Topics, out)
	}
}
