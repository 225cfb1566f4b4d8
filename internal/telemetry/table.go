package telemetry

import (
	"fmt"
	"strings"
)

// kind is the type of a metric.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// metric describes one metric: the registry and docs/metrics.md are made of the
// same table.
type metric struct {
	name   string
	kind   kind
	help   string
	labels []string
}

// table is every metric of ours, in the order of the docs.
var table []*metric

// define adds a row to the table.
func define(name string, k kind, help string, labels ...string) *metric {
	m := &metric{name: name, kind: k, help: help, labels: labels}
	table = append(table, m)
	return m
}

// What the server is.
var (
	buildInfo = define("tidemark_build_info", gauge, "Always 1; the labels say what runs.", "version", "go")
	startTime = define("tidemark_start_time_seconds", gauge, "When the process made its registry, in seconds since the epoch.")
	panics    = define("tidemark_panics_total", counter, "Panics that were contained (a connection or operation ended for them). Each is a bug.", "where")
)

// Network.
var (
	receivedBytes = define("tidemark_network_received_bytes_total", counter, "Bytes of whole requests, size prefix included.")
	sentBytes     = define("tidemark_network_sent_bytes_total", counter, "Bytes of responses handed to the kernel, size prefix included.")
	connections   = define("tidemark_connections", gauge, "Open connections.", "listener")
	connOpened    = define("tidemark_connections_opened_total", counter, "Connections accepted.", "listener")
	connClosed    = define("tidemark_connections_closed_total", counter,
		"Connections that ended, by the one reason each ends for; those turned away at once (max_connections_per_ip) count here and not as opened.", "listener", "reason")
	requests = define("tidemark_requests_total", counter,
		"Requests, by API and by the error code they were answered with (NONE for success; for answers with several codes, the one the handler names).", "api", "error")
	requestSeconds = define("tidemark_request_stage_seconds", histogram,
		"Time of requests by stage: queue (for a slot or memory), handle (the synchronous part), wait (for fsync, replication, bytes or the controller), send (for earlier responses and the socket).", "api", "stage")
	requestsInFlight = define("tidemark_requests_in_flight", gauge, "Requests read and not yet answered.", "server")
	requestMemory    = define("tidemark_request_memory_bytes", gauge, "Memory taken from the request budget.", "server")
	requestLimit     = define("tidemark_request_memory_limit_bytes", gauge, "The request budget (queued.max.request.bytes).", "server")
	budgetWaiters    = define("tidemark_request_memory_waiters", gauge, "Connections that wait for memory before they read on.", "server")
	tlsExpiry        = define("tidemark_tls_certificate_expiry_seconds", gauge, "When the certificate of a TLS listener ends, in seconds since the epoch.", "listener")
	tlsReloads       = define("tidemark_tls_reloads_total", counter,
		"New keys that a TLS listener was given while it served: ok serves new connections, refused left the old ones in place (the log says why).", "listener", "outcome")
	purgatorySize = define("tidemark_purgatory_operations", gauge, "Operations that wait for something to happen to a partition.", "kind")
)

// Storage.
var (
	fsyncSeconds = define("tidemark_fsync_seconds", histogram, "Time of fsync calls; log is data or metadata.", "log")
	fsyncErrors  = define("tidemark_fsync_errors_total", counter, "Failed fsync calls. Each takes a folder offline: it is never retried.", "log")
	groupCommit  = define("tidemark_group_commit_requests", histogram, "Requests that one fsync of a data log made durable.")
	notDurable   = define("tidemark_acked_not_durable_bytes", gauge,
		"Bytes acknowledged that are not fsynced yet, over all partitions here. 0 in durability=strict.")
)

// Topics.
var (
	topicRecordsIn = define("tidemark_topic_records_in_total", counter, "Records appended by producers.", "topic")
	topicBytesIn   = define("tidemark_topic_bytes_in_total", counter, "Bytes of record batches appended by producers, as stored.", "topic")
	topicBytesOut  = define("tidemark_topic_bytes_out_total", counter, "Bytes of record batches sent to consumers.", "topic")
	topicFailedIn  = define("tidemark_topic_failed_produce_total", counter, "Produce attempts on a partition that were refused.", "topic")
)

// Partitions, by the names that dashboards of kafka_exporter know.
var (
	brokers         = define("kafka_brokers", gauge, "Brokers that are registered and not fenced.")
	brokerInfo      = define("kafka_broker_info", gauge, "Always 1; one series a broker.", "id", "address", "rack")
	topicPartitions = define("kafka_topic_partitions", gauge, "Partitions of the topic.", "topic")
	currentOffset   = define("kafka_topic_partition_current_offset", gauge, "High watermark: the next offset consumers cannot read yet.", "topic", "partition")
	oldestOffset    = define("kafka_topic_partition_oldest_offset", gauge, "Log start offset.", "topic", "partition")
	partitionLeader = define("kafka_topic_partition_leader", gauge, "Node id of the leader, -1 if there is none.", "topic", "partition")
	replicas        = define("kafka_topic_partition_replicas", gauge, "Replicas assigned.", "topic", "partition")
	inSync          = define("kafka_topic_partition_in_sync_replica", gauge, "Replicas in sync.", "topic", "partition")
	preferred       = define("kafka_topic_partition_leader_is_preferred", gauge, "1 if the first replica leads.", "topic", "partition")
	underReplicated = define("kafka_topic_partition_under_replicated_partition", gauge, "1 if fewer replicas are in sync than assigned.", "topic", "partition")
	stableOffset    = define("tidemark_partition_last_stable_offset", gauge, "Last stable offset: where read_committed consumers stop.", "topic", "partition")
	endOffset       = define("tidemark_partition_log_end_offset", gauge, "Log end offset: the next offset to be appended.", "topic", "partition")
	durableOffset   = define("tidemark_partition_durable_end_offset", gauge, "Offset up to which the log here is fsynced.", "topic", "partition")
	partitionSize   = define("tidemark_partition_size_bytes", gauge, "Bytes of the log's segments here.", "topic", "partition")
)

// Metadata.
var (
	metadataApplied   = define("tidemark_metadata_applied_offset", gauge, "Last metadata offset this node acts on.")
	metadataCommitted = define("tidemark_metadata_high_watermark", gauge, "High watermark of the metadata log, as known here.")
	metadataEnd       = define("tidemark_metadata_log_end_offset", gauge, "Log end offset of the metadata log here.")
	controllerEpoch   = define("tidemark_controller_epoch", gauge, "Leader epoch of the metadata quorum.")
	controllerID      = define("tidemark_controller_id", gauge, "Node id of the active controller, -1 if unknown.")
	controllerActive  = define("tidemark_controller_active", gauge, "1 if this node is the active controller.")
	fencedBrokers     = define("tidemark_controller_fenced_brokers", gauge, "Registered brokers that are fenced.")
)

// Markdown is docs/metrics.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Metrics

Generated from the table in ` + "`internal/telemetry`" + ` by ` + "`go test ./internal/telemetry -run TestDocs -update`" + `. Do not edit.

` + "`GET /metrics`" + ` on the admin listener (` + "`--admin`" + `, default 127.0.0.1:9644) answers in Prometheus' text format. Beside the metrics below it has
the Go runtime's (` + "`go_*`" + `) and the process's (` + "`process_*`" + `). Names that start with ` + "`kafka_`" + ` mean what kafka_exporter means by them, so its
dashboards work; offsets of a partition are reported by the nodes that hold a replica of it.

There is no metric for "lag": the word stands for several different distances. The offsets to subtract are here.

| name | type | labels | meaning |
|---|---|---|---|
`)
	for _, m := range table {
		labels := strings.Join(m.labels, ", ")
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, m.help)
	}
	return b.String()
}
