package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Storage counts what reaches the disk. It satisfies commit.Observer, and
// MetadataSync fits quorum.Options.OnSync.
type Storage struct {
	data, metadata prometheus.Observer
	dataErrors     prometheus.Counter
	metadataErrors prometheus.Counter
	group          prometheus.Observer
}

func newStorage(r *Registry) *Storage {
	seconds, errs := r.histogramVec(fsyncSeconds, secondsBuckets), r.counterVec(fsyncErrors)
	return &Storage{
		data: seconds.WithLabelValues("data"), metadata: seconds.WithLabelValues("metadata"),
		dataErrors: errs.WithLabelValues("data"), metadataErrors: errs.WithLabelValues("metadata"),
		group: r.histogramVec(groupCommit, groupBuckets).WithLabelValues(),
	}
}

// Synced counts one fsync of a data log: how long it took, how many requests it
// served, and its error.
func (s *Storage) Synced(took time.Duration, requests int, err error) {
	s.data.Observe(took.Seconds())
	if err != nil {
		s.dataErrors.Inc()
		return
	}
	if requests > 0 {
		s.group.Observe(float64(requests))
	}
}

// MetadataSync counts one fsync of the metadata log.
func (s *Storage) MetadataSync(took time.Duration) { s.metadata.Observe(took.Seconds()) }

// MetadataSyncFailed counts one that failed.
func (s *Storage) MetadataSyncFailed() { s.metadataErrors.Inc() }

// Topics counts what goes in and out of each topic. Children are kept per topic
// until the topic is forgotten, so that their number follows the topics'.
type Topics struct {
	recordsIn, bytesIn, bytesOut, failedIn *prometheus.CounterVec
	children                               sync.Map // string -> *Topic
}

// Topic is the counters of one topic; keep it where the topic is kept.
type Topic struct {
	recordsIn, bytesIn, bytesOut, failedIn prometheus.Counter
}

func newTopics(r *Registry) *Topics {
	return &Topics{
		recordsIn: r.counterVec(topicRecordsIn), bytesIn: r.counterVec(topicBytesIn),
		bytesOut: r.counterVec(topicBytesOut), failedIn: r.counterVec(topicFailedIn),
	}
}

// Topic returns the counters of a topic that exists.
func (t *Topics) Topic(name string) *Topic {
	if c, ok := t.children.Load(name); ok {
		return c.(*Topic)
	}
	c := &Topic{
		recordsIn: t.recordsIn.WithLabelValues(name), bytesIn: t.bytesIn.WithLabelValues(name),
		bytesOut: t.bytesOut.WithLabelValues(name), failedIn: t.failedIn.WithLabelValues(name),
	}
	kept, _ := t.children.LoadOrStore(name, c)
	return kept.(*Topic)
}

// Forget drops the counters of a topic that was deleted.
func (t *Topics) Forget(name string) {
	t.children.Delete(name)
	for _, v := range []*prometheus.CounterVec{t.recordsIn, t.bytesIn, t.bytesOut, t.failedIn} {
		v.DeleteLabelValues(name)
	}
}

// Appended counts records that a producer appended, and their bytes as stored.
func (t *Topic) Appended(records, sizeBytes int) {
	t.recordsIn.Add(float64(records))
	t.bytesIn.Add(float64(sizeBytes))
}

// Refused counts an attempt to produce to a partition that failed.
func (t *Topic) Refused() { t.failedIn.Inc() }

// Fetched counts bytes of records sent to a consumer.
func (t *Topic) Fetched(sizeBytes int) { t.bytesOut.Add(float64(sizeBytes)) }
