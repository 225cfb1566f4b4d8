package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func values(kv ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return m
}

// TestDescribeConfigsC055: what a topic with two overrides reports (field case C055).
func TestDescribeConfigsC055(t *testing.T) {
	r := Effective(ScopeTopic, Layer{SourceTopic, values("retention.ms", "1000000", "max.message.bytes", "2000000")})
	want := map[string][]Entry{
		"max.message.bytes": {{"max.message.bytes", "2000000", SourceTopic}, {"message.max.bytes", "1048588", SourceDefault}},
		"retention.ms":      {{"retention.ms", "1000000", SourceTopic}},
		"segment.bytes":     {{"log.segment.bytes", "1073741824", SourceDefault}},
		"flush.ms":          nil,
	}
	for name, w := range want {
		if diff := cmp.Diff(w, r.Synonyms(name)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
	types := map[string]Type{"retention.ms": 5, "max.message.bytes": 3, "cleanup.policy": 7, "preallocate": 1, "min.cleanable.dirty.ratio": 6}
	for name, typ := range types {
		if d := r.Describe(name); d.Type != typ {
			t.Errorf("%s has type %d, want %d", name, d.Type, typ)
		}
	}
	if d := r.Describe("cleanup.policy"); d.Source != SourceDefault || *d.Value != "delete" {
		t.Errorf("untouched key: %+v", d)
	}
	if n := len(r.Names()); n < 25 {
		t.Errorf("only %d topic settings", n)
	}
}

// TestRetentionFamily: log.retention.ms wins over minutes over hours whatever
// layer they stand in, and the listing starts at the principal key.
func TestRetentionFamily(t *testing.T) {
	for _, tc := range []struct {
		name   string
		static map[string]string
		wantMs int64
		source Source
		list   string
	}{
		{"nothing", nil, 604800000, SourceDefault, ""},
		{"hours", values("log.retention.hours", "1"), 3600000, SourceDefault, ""},
		{"minutes beat hours", values("log.retention.hours", "1", "log.retention.minutes", "2"), 120000, SourceDefault, ""},
		{"ms beats both", values("log.retention.hours", "1", "log.retention.minutes", "2", "log.retention.ms", "3"), 3, SourceStatic,
			"log.retention.ms/4 log.retention.minutes/4 log.retention.hours/4 log.retention.hours/5"},
		{"negative is no limit", values("log.retention.hours", "-5"), -1, SourceDefault, ""},
	} {
		r := Effective(ScopeTopic, Layer{SourceStatic, tc.static})
		if got := r.Long("retention.ms"); got != tc.wantMs {
			t.Errorf("%s: retention.ms = %d, want %d", tc.name, got, tc.wantMs)
		}
		if got := r.Source("retention.ms"); got != tc.source {
			t.Errorf("%s: source %v, want %v", tc.name, got, tc.source)
		}
		if got := listing(r.Synonyms("retention.ms")); got != tc.list {
			t.Errorf("%s: synonyms %q, want %q", tc.name, got, tc.list)
		}
	}
}

func listing(entries []Entry) string {
	var parts []string
	for _, e := range entries {
		parts = append(parts, e.Name+"/"+string(rune('0'+e.Source)))
	}
	return strings.Join(parts, " ")
}

// TestLayers: kafka-surface 2.18, per broker > cluster default > static > default, topic over all.
func TestLayers(t *testing.T) {
	layers := []Layer{
		{SourceStatic, values("log.segment.bytes", "4000000")},
		{SourceDynamicDefaultBroker, values("log.segment.bytes", "3000000")},
		{SourceDynamicBroker, values("log.segment.bytes", "2000000")},
		{SourceTopic, values("segment.bytes", "1100000")},
	}
	want := []int{1073741824, 4000000, 3000000, 2000000, 1100000}
	sources := []Source{SourceDefault, SourceStatic, SourceDynamicDefaultBroker, SourceDynamicBroker, SourceTopic}
	for n := range len(layers) + 1 {
		r := Effective(ScopeTopic, layers[:n]...)
		if got := r.Int("segment.bytes"); got != want[n] || r.Source("segment.bytes") != sources[n] {
			t.Errorf("%d layers: %d from %v, want %d from %v", n, got, r.Source("segment.bytes"), want[n], sources[n])
		}
	}
}

func TestSensitiveValuesAreHidden(t *testing.T) {
	r := Effective(ScopeBroker, Layer{SourceStatic, values("ssl.key.password", "secret", "rsm.config.token", "secret", "listener.name.x.ssl.key.password", "secret")})
	for _, n := range []string{"ssl.key.password", "rsm.config.token", "listener.name.x.ssl.key.password"} {
		d := r.Describe(n)
		if !d.Sensitive || d.Value != nil {
			t.Errorf("%s shows %+v", n, d)
		}
		for _, s := range d.Synonyms {
			if s.Value != nil {
				t.Errorf("%s shows its synonym", n)
			}
		}
	}
	err := Validate(ScopeBroker, "sasl.login.refresh.buffer.seconds", "many")
	if err == nil || !strings.Contains(err.Error(), "many") {
		t.Errorf("a plain value is hidden: %v", err)
	}
}

func TestCanonicalValues(t *testing.T) {
	r := Effective(ScopeTopic, Layer{SourceTopic, values("preallocate", " TRUE ", "cleanup.policy", "delete , compact", "segment.ms", " 007 ")})
	for name, want := range map[string]string{"preallocate": "true", "cleanup.policy": "delete,compact", "segment.ms": "7"} {
		if got := *r.Describe(name).Value; got != want {
			t.Errorf("%s prints %q, want %q", name, got, want)
		}
	}
	twice := Effective(ScopeTopic, Layer{SourceTopic, values("cleanup.policy", "delete,delete")}).Describe("cleanup.policy")
	if *twice.Value != "delete" || *twice.Synonyms[0].Value != "delete" {
		t.Errorf("a policy given twice prints %q, its synonym %q", *twice.Value, *twice.Synonyms[0].Value)
	}
	c := ToTopicConfig(r)
	if !c.Preallocate || !c.CleanupCompact || !c.CleanupDelete || c.SegmentMs != 7 {
		t.Errorf("typed values: %+v", c)
	}
}

// TestLayerOrderDoesNotMatter: precedence is by source only.
func TestLayerOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layers := []Layer{
			{SourceStatic, values("log.retention.ms", "1", "min.insync.replicas", "5")},
			{SourceDynamicDefaultBroker, values("min.insync.replicas", "4")},
			{SourceDynamicBroker, values("log.retention.hours", "3")},
			{SourceTopic, values("retention.bytes", "9")},
		}
		shuffled := rapid.Permutation(layers).Draw(t, "layers")
		a, b := Effective(ScopeTopic, layers...), Effective(ScopeTopic, shuffled...)
		if diff := cmp.Diff(ToTopicConfig(a), ToTopicConfig(b)); diff != "" {
			t.Fatal(diff)
		}
		for _, n := range a.Names() {
			if diff := cmp.Diff(a.Describe(n), b.Describe(n)); diff != "" {
				t.Fatalf("%s: %s", n, diff)
			}
		}
	})
}

func TestValidateTopic(t *testing.T) {
	for _, tc := range []struct{ key, value, want string }{
		{"segment.bytes", "1048576", ""},
		{"segment.bytes", "1048575", "at least 1048576"},
		{"internal.segment.bytes", "1024", ""},
		{"min.insync.replicas", "0", "at least 1"},
		{"cleanup.policy", "", ""},
		{"cleanup.policy", "compact,delete", ""},
		{"cleanup.policy", "compact,compact", ""},
		{"cleanup.policy", "compact,", "empty element"},
		{"cleanup.policy", "shred", "not one of compact, delete"},
		{"retention.ms", "-1", ""},
		{"retention.ms", "-2", "at least -1"},
		{"retention.ms", "1e3", "whole number"},
		{"retention.ms", "99999999999999999999", "64 bits"},
		{"max.message.bytes", "2147483648", "32 bits"},
		{"min.cleanable.dirty.ratio", "1.5", "between 0 and 1"},
		{"min.cleanable.dirty.ratio", "NaN", "between 0 and 1"},
		{"compression.type", "zip", "one of uncompressed"},
		{"compression.gzip.level", "0", "between 1 and 9"},
		{"compression.gzip.level", "-1", ""},
		{"compression.zstd.level", "23", "between -131072 and 22"},
		{"message.timestamp.type", "createTime", "CreateTime"},
		{"preallocate", "True", ""},
		{"preallocate", "yes", "true or false"},
		{"leader.replication.throttled.replicas", "0:1,2:3", ""},
		{"leader.replication.throttled.replicas", "*", ""},
		{"leader.replication.throttled.replicas", "0-1", "PARTITION:BROKER"},
		{"durability", "replicated", ""},
		{"durability", "fast", "strict, replicated or relaxed"},
		{"min.compaction.lag.ms", "9223372036854775807", ""},
		{"message.format.version", "3.0", "no such topic setting"},
		{"remote.storage.enable", "true", "not served yet"},
	} {
		err := ValidateTopic(map[string]string{tc.key: tc.value})
		checkError(t, tc.key+"="+tc.value, err, tc.want)
	}
	err := ValidateTopic(values("min.compaction.lag.ms", "2", "max.compaction.lag.ms", "1"))
	checkError(t, "lags", err, "more than max.compaction.lag.ms")
}

func checkError(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: refused: %v", what, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: error %v, want one with %q", what, err, want)
	}
}

func TestValidateGroup(t *testing.T) {
	for _, tc := range []struct{ key, value, want string }{
		{"consumer.session.timeout.ms", "45000", ""},
		{"consumer.session.timeout.ms", "1000", "group.consumer.min.session.timeout.ms"},
		{"consumer.heartbeat.interval.ms", "20000", "group.consumer.max.heartbeat.interval.ms"},
		{"share.auto.offset.reset", "by_duration:PT1H", ""},
		{"share.auto.offset.reset", "by_duration:1h", "ISO 8601"},
		{"share.isolation.level", "read_committed", ""},
		{"streams.num.standby.replicas", "3", "group.streams.max.standby.replicas"},
		{"consumer.sesion.timeout.ms", "1", "did you mean consumer.session.timeout.ms"},
	} {
		checkError(t, tc.key+"="+tc.value, ValidateGroup(map[string]string{tc.key: tc.value}), tc.want)
	}
}

func TestValidateDynamicBroker(t *testing.T) {
	for _, tc := range []struct {
		key, value string
		oneBroker  bool
		want       string
	}{
		{"log.segment.bytes", "2000000", false, ""},
		{"num.partitions", "3", false, "run time"},
		{"ssl.key.password", "x", false, "one broker"},
		{"listener.name.internal.ssl.key.password", "x", true, ""},
		{"listener.name.internal.scram-sha-256.sasl.jaas.config", "x", true, ""},
		{"listener.name.internal.nonsense", "x", true, "no such broker setting"},
		{"leader.replication.throttled.rate", "100", true, ""},
	} {
		checkError(t, tc.key, ValidateDynamicBroker(tc.key, tc.value, tc.oneBroker), tc.want)
	}
}

func TestValidateClientMetrics(t *testing.T) {
	checkError(t, "interval", Validate(ScopeClientMetrics, "interval.ms", "99"), "between 100 and 3600000")
	checkError(t, "match", Validate(ScopeClientMetrics, "match", "client_id=a.*"), "")
	checkError(t, "match", Validate(ScopeClientMetrics, "match", "client_ip=a"), "not one of")
	checkError(t, "match", Validate(ScopeClientMetrics, "match", "client_id=("), "does not compile")
}

func TestNearest(t *testing.T) {
	for name, want := range map[string]string{
		"retention.msec": "retention.ms", "clean.policy": "cleanup.policy", "min.insync.replica": "min.insync.replicas",
		"completely.different.thing.altogether": "", "log.segment.bytes": "segment.bytes",
	} {
		if got := Nearest(ScopeTopic, name); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}
