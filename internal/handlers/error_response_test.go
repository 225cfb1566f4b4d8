package handlers

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/apis"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// asked returns a request of an API that asks for one thing where an answer has
// its errors beside each thing asked for.
func asked(key int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	switch req := req.(type) {
	case *kmsg.CreateTopicsRequest:
		req.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t"}}
	case *kmsg.DeleteTopicsRequest:
		req.Topics, req.TopicNames = []kmsg.DeleteTopicsRequestTopic{{Topic: kmsg.StringPtr("t")}}, []string{"t"}
	case *kmsg.CreatePartitionsRequest:
		req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t"}}
	case *kmsg.DescribeConfigsRequest:
		req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceName: "t"}}
	case *kmsg.AlterConfigsRequest:
		req.Resources = []kmsg.AlterConfigsRequestResource{{ResourceName: "t"}}
	case *kmsg.IncrementalAlterConfigsRequest:
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceName: "t"}}
	case *kmsg.ElectLeadersRequest:
		req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	}
	return req
}

// TestErrorResponseCarriesTheError: in every version of every API that the
// controller answers or a broker forwards, the encoded answer holds the code.
func TestErrorResponseCarriesTheError(t *testing.T) {
	const code = kerrors.NotController
	for _, a := range apis.All() {
		if !a.On(apis.Controller) && !(a.Forward && a.On(apis.Broker)) {
			continue
		}
		for v := a.Min; v <= a.Max; v++ {
			if a.Key == int16(kmsg.Fetch) && v < 7 {
				continue // no code for the whole answer; the metadata log is fetched with newer ones
			}
			req := asked(a.Key)
			req.SetVersion(v)
			resp := errorResponse(req, code)
			resp.SetVersion(v)
			if !bytes.Contains(resp.AppendTo(nil), []byte{0, byte(code)}) {
				t.Errorf("%s v%d: the answer does not carry %v", a.Name, v, code)
			}
		}
	}
}
