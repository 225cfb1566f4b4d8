package handlers

import "github.com/tidemark-io/tidemark/internal/metadata/image"

// node is a broker as clients of one listener reach it.
type node struct {
	ID   int32
	Host string
	Port int32
	Rack *string
}

// aliveEndpoint returns where an unfenced broker listens under a listener name.
// A broker that does not have the listener is not visible to its clients.
func aliveEndpoint(im *image.Image, id int32, listener string) (node, bool) {
	br, ok := im.Cluster.Broker(id)
	if !ok || br.Fenced {
		return node{}, false
	}
	return endpointOf(br, listener)
}

// endpointOf returns where a broker listens, fenced or not.
func endpointOf(br *image.Broker, listener string) (node, bool) {
	e, ok := br.Endpoint(listener)
	return node{ID: br.ID, Host: e.Host, Port: e.Port, Rack: br.Rack}, ok
}

// aliveNodes returns the unfenced brokers of a listener, by id.
func aliveNodes(im *image.Image, listener string) []node {
	var out []node
	for br := range im.Cluster.All() {
		if n, ok := aliveEndpoint(im, br.ID, listener); ok {
			out = append(out, n)
		}
	}
	return out
}

// offline returns the replicas that cannot be reached through the listener: on
// brokers that are fenced or lack it, or in folders that have failed.
func offline(im *image.Image, p *image.Partition, listener string) []int32 {
	out := []int32{}
	for _, id := range p.Replicas {
		_, alive := aliveEndpoint(im, id, listener)
		if alive {
			br, _ := im.Cluster.Broker(id)
			dir, known := p.Directory(id)
			alive = !known || br.HasOnlineDir(dir)
		}
		if !alive {
			out = append(out, id)
		}
	}
	return out
}
