package telemetry

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Buckets. A request takes from a twentieth of a millisecond to half a minute; a
// group commit serves from one request to hundreds.
var (
	secondsBuckets = []float64{
		.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30,
	}
	groupBuckets = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
)

// Registry holds every metric of one server.
type Registry struct {
	prom    *prometheus.Registry
	network *Network
	storage *Storage
	topics  *Topics
}

// New returns a registry with all instrument sets in it.
func New(version string) *Registry {
	r := &Registry{prom: prometheus.NewRegistry()}
	r.prom.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	r.gaugeVec(buildInfo).WithLabelValues(version, runtime.Version()).Set(1)
	r.gaugeVec(startTime).WithLabelValues().Set(float64(time.Now().UnixMilli()) / 1000)
	r.network = newNetwork(r)
	r.storage = newStorage(r)
	r.topics = newTopics(r)
	return r
}

// Network is the set of the network servers; it is their Observer.
func (r *Registry) Network() *Network { return r.network }

// Storage is the set of the commit loops and the metadata log.
func (r *Registry) Storage() *Storage { return r.storage }

// Topics is the set of what goes in and out of topics.
func (r *Registry) Topics() *Topics { return r.topics }

// Panicked counts a panic that was contained; where is a place in the code, one
// of few.
func (r *Registry) Panicked(where string) { r.network.Panicked(where) }

// Gatherer is what an exporter reads.
func (r *Registry) Gatherer() prometheus.Gatherer { return r.prom }

func (r *Registry) counterVec(m *metric) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.name, Help: m.help}, m.labels)
	r.prom.MustRegister(v)
	return v
}

func (r *Registry) gaugeVec(m *metric) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.name, Help: m.help}, m.labels)
	r.prom.MustRegister(v)
	return v
}

func (r *Registry) histogramVec(m *metric, buckets []float64) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.name, Help: m.help, Buckets: buckets}, m.labels)
	r.prom.MustRegister(v)
	return v
}
