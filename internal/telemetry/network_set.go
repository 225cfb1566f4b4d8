package telemetry

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-io/tidemark/internal/apis"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// Keys and codes above these share one child: they come from clients only when
// they are refused.
const (
	maxAPIKey    = 127
	maxErrorCode = 255
)

// Network counts connections and requests; it satisfies network.Observer. Its
// children are resolved when an API is first used, and reached by index after.
type Network struct {
	received, sent prometheus.Counter
	conns          *prometheus.GaugeVec
	opened, closed *prometheus.CounterVec
	panics         *prometheus.CounterVec
	requests       *prometheus.CounterVec
	stages         *prometheus.HistogramVec
	apis           [maxAPIKey + 1]atomic.Pointer[apiSet]
}

// apiSet is the children of one API.
type apiSet struct {
	name                      string
	queue, handle, wait, send prometheus.Observer
	codes                     [maxErrorCode + 2]atomic.Pointer[prometheus.Counter] // index is code + 1
}

func newNetwork(r *Registry) *Network {
	return &Network{
		received: r.counterVec(receivedBytes).WithLabelValues(),
		sent:     r.counterVec(sentBytes).WithLabelValues(),
		conns:    r.gaugeVec(connections),
		opened:   r.counterVec(connOpened),
		closed:   r.counterVec(connClosed),
		panics:   r.counterVec(panics),
		requests: r.counterVec(requests),
		stages:   r.histogramVec(requestSeconds, secondsBuckets),
	}
}

// ConnOpened counts an accepted connection.
func (n *Network) ConnOpened(listener string) {
	n.conns.WithLabelValues(listener).Inc()
	n.opened.WithLabelValues(listener).Inc()
}

// ConnClosed counts the end of a connection, or with opened false one that was
// turned away.
func (n *Network) ConnClosed(listener, reason string, opened bool) {
	if opened {
		n.conns.WithLabelValues(listener).Dec()
	}
	n.closed.WithLabelValues(listener, reason).Inc()
}

// Panicked counts a panic that was contained.
func (n *Network) Panicked(where string) { n.panics.WithLabelValues(where).Inc() }

// RequestDone counts a finished request.
func (n *Network) RequestDone(s RequestSample) {
	n.received.Add(float64(s.BytesIn))
	n.sent.Add(float64(s.BytesOut))
	a := n.api(s.APIKey)
	n.code(a, s.ErrorCode).Inc()
	a.queue.Observe(s.Queue.Seconds())
	a.handle.Observe(s.Handle.Seconds())
	a.wait.Observe(s.Wait.Seconds())
	a.send.Observe(s.Send.Seconds())
}

func (n *Network) api(key int16) *apiSet {
	i := int(key)
	if i < 0 || i > maxAPIKey {
		i = maxAPIKey
	}
	if a := n.apis[i].Load(); a != nil {
		return a
	}
	name := "other"
	if a, ok := apis.ByKey(int16(i)); ok {
		name = a.Name
	}
	a := &apiSet{
		name:   name,
		queue:  n.stages.WithLabelValues(name, "queue"),
		handle: n.stages.WithLabelValues(name, "handle"),
		wait:   n.stages.WithLabelValues(name, "wait"),
		send:   n.stages.WithLabelValues(name, "send"),
	}
	n.apis[i].CompareAndSwap(nil, a) // a lost race made the same children
	return n.apis[i].Load()
}

func (n *Network) code(a *apiSet, code int16) prometheus.Counter {
	i := int(code) + 1
	if i < 0 || i >= len(a.codes) {
		i = 0 // UNKNOWN_SERVER_ERROR
	}
	if c := a.codes[i].Load(); c != nil {
		return *c
	}
	c := n.requests.WithLabelValues(a.name, kerrors.Code(i-1).Name())
	a.codes[i].Store(&c)
	return c
}

// partitionLabel is a partition as a label value.
func partitionLabel(p int32) string { return strconv.Itoa(int(p)) }
