package config

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// omitted are the settings of Apache Kafka 4.3 that are not known here. All of
// them are internal there (ConfigDef.defineInternal): no documentation, not in
// DescribeConfigs.
var omitted = []struct{ name, reason string }{
	{"controller.performance.always.log.threshold.ms", "internal: the controller reports slow events by metrics"},
	{"controller.performance.sample.period.ms", "internal: the controller reports slow events by metrics"},
	{"group.consumer.regex.refresh.interval.ms", "internal: waits for consumer groups"},
	{"group.share.initialize.retry.interval.ms", "internal: waits for share groups"},
	{"group.share.persister.class.name", "internal: names a Java class"},
	{"internal.metadata.delete.delay.millis", "internal: for Kafka's own tests"},
	{"internal.metadata.log.segment.bytes", "internal: for Kafka's own tests"},
	{"internal.metadata.max.batch.size.in.bytes", "internal: for Kafka's own tests"},
	{"producer.id.expiration.check.interval.ms", "internal: expiry is checked on each use and by the retention pass"},
	{"remote.log.index.file.cache.ttl.ms", "internal: waits for tiered storage"},
	{"remote.log.manager.task.retry.backoff.max.ms", "internal: waits for tiered storage"},
	{"remote.log.manager.task.retry.backoff.ms", "internal: waits for tiered storage"},
	{"remote.log.manager.task.retry.jitter", "internal: waits for tiered storage"},
	{"server.max.startup.time.ms", "internal: start-up is bounded by initial.broker.registration.timeout.ms"},
	{"share.coordinator.cold.partition.snapshot.interval.ms", "internal: waits for share groups"},
	{"share.coordinator.state.topic.prune.interval.ms", "internal: waits for share groups"},
	{"unstable.api.versions.enable", "internal: unstable versions are never advertised"},
	{"unstable.feature.versions.enable", "internal: unstable feature levels are never offered"},
}

const docsHead = `# Configuration

Generated from the tables in ` + "`internal/config`" + ` by ` + "`go test ./internal/config -run TestDocs -update`" + `. Do not edit.

Names, types, defaults and limits are those of Apache Kafka 4.3. Settings of Tidemark's own are marked **ours**.
A setting that is *not in force* is accepted, stored and described, so that a configuration written for Kafka works; nothing acts on it yet,
and the server says so when it starts.

## Where values come from

Later sources win: built-in default, configuration file (` + "`--config`" + `, Kafka's ` + "`server.properties`" + ` names), environment
(` + "`TIDEMARK_LOG_SEGMENT_BYTES`" + ` is ` + "`log.segment.bytes`" + `), ` + "`--set key=value`" + `, the server's own flags, the cluster-wide dynamic default, the dynamic value
of one broker, and, for topics and groups, their own value. Unknown keys, wrong types and settings that contradict each other stop the
server with the key, the value, the reason and the nearest known name.

` + "`${...}`" + ` in a file is plain text.

## What a cluster of one sets by itself

Without a word about it the server is broker and controller with ` + "`node.id=1`" + `, listens for clients on ` + "`127.0.0.1:9092`" + ` and for the controller on a free
loopback port, keeps its data in ` + "`./data`" + `, and uses 1 for the replication factors and minimum in-sync replicas of internal topics, whose defaults
need three brokers. These show up as static values.

`

// WriteDocs writes the reference of all settings as Markdown.
func WriteDocs(w io.Writer) error {
	var b strings.Builder
	b.WriteString(docsHead)
	sections := []struct {
		title string
		keys  []Key
	}{
		{"Broker settings", Broker()}, {"Topic settings", Topic()}, {"Group settings", Group()}, {"Client metrics settings", ClientMetrics()},
	}
	for _, s := range sections {
		writeSection(&b, s.title, s.keys)
	}
	b.WriteString("## Settings of Apache Kafka 4.3 that are left out\n\n| setting | reason |\n|---|---|\n")
	for _, o := range omitted {
		fmt.Fprintf(&b, "| `%s` | %s |\n", o.name, o.reason)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeSection(b *strings.Builder, title string, keys []Key) {
	live := 0
	for _, k := range keys {
		if k.InForce {
			live++
		}
	}
	fmt.Fprintf(b, "## %s\n\n%d settings, %d in force.\n\n", title, len(keys), live)
	b.WriteString("| setting | type | default | limits | change | in force | meaning |\n|---|---|---|---|---|---|---|\n")
	for _, k := range keys {
		fmt.Fprintf(b, "| `%s`%s | %s | %s | %s | %s | %s | %s |\n",
			k.Name, k.remark(), k.Type, k.defaultWords(), escape(k.Limits), k.changeWords(), k.forceWords(), escape(k.docWords()))
	}
	b.WriteString("\n")
}

func escape(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func (k Key) remark() string {
	switch {
	case k.Ours:
		return " **ours**"
	case k.Internal:
		return " (internal)"
	}
	return ""
}

func (k Key) defaultWords() string {
	switch {
	case k.Default == nil:
		return "none"
	case *k.Default == "":
		return "empty"
	}
	return "`" + escape(*k.Default) + "`"
}

func (k Key) changeWords() string {
	switch {
	case k.Scope != ScopeBroker:
		return "at run time"
	case k.ReadOnly:
		return "restart"
	case k.PerBroker:
		return "at run time, one broker"
	}
	return "at run time"
}

func (k Key) forceWords() string {
	switch {
	case k.Except != "":
		return "yes, but not " + k.notInForce()
	case k.InForce:
		return "yes"
	}
	return "no: " + k.NotInForce
}

func (k Key) docWords() string {
	doc := k.Doc
	if k.Scope != ScopeBroker && len(k.Synonyms) > 0 {
		doc += " Broker setting: `" + strings.Join(k.Synonyms, "`, `") + "`."
	}
	if k.Scope == ScopeBroker && len(k.Synonyms) > 1 && k.Synonyms[0] == k.Name {
		others := slices.Clone(k.Synonyms[1:])
		doc += " Falls back to `" + strings.Join(others, "`, `") + "`."
	}
	return doc
}
