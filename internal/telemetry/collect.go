package telemetry

import (
	"iter"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// funcCollector asks for its values when it is scraped, and only then.
type funcCollector struct {
	descs   []*prometheus.Desc
	collect func(emit func(m *metric, v float64, labels ...string))
	byName  map[*metric]*prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *funcCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *funcCollector) Collect(ch chan<- prometheus.Metric) {
	c.collect(func(m *metric, v float64, labels ...string) {
		valueType := prometheus.GaugeValue
		if m.kind == counter {
			valueType = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(c.byName[m], valueType, v, labels...)
	})
}

// onScrape registers a collector of the given metrics. constLabels tells several
// collectors of the same metrics apart.
func (r *Registry) onScrape(metrics []*metric, constLabels prometheus.Labels,
	collect func(emit func(m *metric, v float64, labels ...string)),
) {
	c := &funcCollector{collect: collect, byName: map[*metric]*prometheus.Desc{}}
	for _, m := range metrics {
		var labels []string
		for _, l := range m.labels {
			if _, fixed := constLabels[l]; !fixed {
				labels = append(labels, l)
			}
		}
		d := prometheus.NewDesc(m.name, m.help, labels, constLabels)
		c.descs = append(c.descs, d)
		c.byName[m] = d
	}
	r.prom.MustRegister(c)
}

// CollectSockets reads the sizes of a network server when scraped; server tells
// several apart, for example "broker" and "controller".
func (r *Registry) CollectSockets(server string, read func() SocketStats) {
	metrics := []*metric{requestsInFlight, requestMemory, requestLimit, budgetWaiters}
	r.onScrape(metrics, prometheus.Labels{"server": server}, func(emit func(*metric, float64, ...string)) {
		s := read()
		emit(requestsInFlight, float64(s.RequestsInFlight))
		emit(requestMemory, float64(s.RequestMemoryBytes))
		emit(requestLimit, float64(s.RequestMemoryLimit))
		emit(budgetWaiters, float64(s.BudgetWaiters))
	})
}

// CollectTLS reads a TLS listener's keys when scraped.
func (r *Registry) CollectTLS(listener string, read func() TLSSample) {
	r.onScrape([]*metric{tlsExpiry, tlsReloads}, prometheus.Labels{"listener": listener}, func(emit func(*metric, float64, ...string)) {
		s := read()
		emit(tlsExpiry, float64(s.Expires.Unix()))
		emit(tlsReloads, float64(s.Reloaded), "ok")
		emit(tlsReloads, float64(s.Refused), "refused")
	})
}

// CollectPurgatory reads how many operations of a kind wait when scraped.
func (r *Registry) CollectPurgatory(kind string, waiting func() int) {
	r.onScrape([]*metric{purgatorySize}, prometheus.Labels{"kind": kind}, func(emit func(*metric, float64, ...string)) {
		emit(purgatorySize, float64(waiting()))
	})
}

// CollectMetadata reads the metadata log and quorum when scraped.
func (r *Registry) CollectMetadata(read func() MetadataSample) {
	metrics := []*metric{metadataApplied, metadataCommitted, metadataEnd, controllerEpoch, controllerID, controllerActive}
	r.onScrape(metrics, nil, func(emit func(*metric, float64, ...string)) {
		s := read()
		emit(metadataApplied, float64(s.AppliedOffset))
		emit(metadataCommitted, float64(s.HighWatermark))
		emit(metadataEnd, float64(s.LogEndOffset))
		emit(controllerEpoch, float64(s.Epoch))
		emit(controllerID, float64(s.LeaderID))
		emit(controllerActive, oneIf(s.Active))
	})
}

// CollectCluster reads the registered brokers when scraped.
func (r *Registry) CollectCluster(read func() []BrokerSample) {
	r.onScrape([]*metric{brokers, brokerInfo, fencedBrokers}, nil, func(emit func(*metric, float64, ...string)) {
		all, fenced := read(), 0
		for _, b := range all {
			if b.Fenced {
				fenced++
				continue
			}
			emit(brokerInfo, 1, strconv.Itoa(int(b.ID)), b.Address, b.Rack)
		}
		emit(brokers, float64(len(all)-fenced))
		emit(fencedBrokers, float64(fenced))
	})
}

// CollectPartitions walks the partitions when scraped. All partitions of a topic
// must come one after the other.
func (r *Registry) CollectPartitions(all func() iter.Seq[PartitionSample]) {
	metrics := []*metric{
		topicPartitions, currentOffset, oldestOffset, partitionLeader, replicas, inSync, preferred,
		underReplicated, stableOffset, endOffset, durableOffset, partitionSize, notDurable,
	}
	r.onScrape(metrics, nil, func(emit func(*metric, float64, ...string)) {
		var unsafeBytes int64
		topic, count := "", 0
		endTopic := func() {
			if count > 0 {
				emit(topicPartitions, float64(count), topic)
			}
		}
		for s := range all() {
			if s.Topic != topic {
				endTopic()
				topic, count = s.Topic, 0
			}
			count++
			unsafeBytes += s.NotDurableBytes
			emitPartition(s, emit)
		}
		endTopic()
		emit(notDurable, float64(unsafeBytes))
	})
}

func emitPartition(s PartitionSample, emit func(*metric, float64, ...string)) {
	partition := partitionLabel(s.Partition)
	emit(partitionLeader, float64(s.Leader), s.Topic, partition)
	emit(replicas, float64(len(s.Replicas)), s.Topic, partition)
	emit(inSync, float64(s.InSync), s.Topic, partition)
	emit(preferred, oneIf(len(s.Replicas) > 0 && s.Replicas[0] == s.Leader), s.Topic, partition)
	emit(underReplicated, oneIf(s.InSync < len(s.Replicas)), s.Topic, partition)
	if !s.HasLog {
		return
	}
	emit(currentOffset, float64(s.HighWatermark), s.Topic, partition)
	emit(oldestOffset, float64(s.LogStartOffset), s.Topic, partition)
	emit(stableOffset, float64(s.LastStableOffset), s.Topic, partition)
	emit(endOffset, float64(s.LogEndOffset), s.Topic, partition)
	emit(durableOffset, float64(s.DurableEndOffset), s.Topic, partition)
	emit(partitionSize, float64(s.SizeBytes), s.Topic, partition)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
