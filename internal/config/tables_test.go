package config

import (
	"bytes"
	"embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateDocs = flag.Bool("update", false, "rewrite the generated documentation")

// tables were read off a running Apache Kafka 4.3.1.
//
//go:embed testdata/config-*.tsv
var tables embed.FS

// kafkaDefault holds the defaults that the tables cannot show because the
// broker they were read from sets these keys (ServerLogConfigs, KRaftConfigs,
// SocketServerConfigs and others of Apache Kafka 4.3); "-" is none.
var kafkaDefault = map[string]string{
	"broker.id": "-1", "node.id": "-", "process.roles": "-", "controller.listener.names": "-",
	"controller.quorum.bootstrap.servers": "''", "default.replication.factor": "1", "inter.broker.listener.name": "-",
	"listener.security.protocol.map": "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
	"listeners":                      "PLAINTEXT://:9092", "log.dirs": "-", "min.insync.replicas": "1",
	"offsets.topic.replication.factor": "3", "transaction.state.log.min.isr": "2", "transaction.state.log.replication.factor": "3",
	"share.coordinator.state.topic.min.isr": "2", "share.coordinator.state.topic.replication.factor": "3",
}

// TestTablesMatchKafka compares every key with what DescribeConfigs of Apache
// Kafka 4.3.1 says: name, type, default, update mode, synonyms in order.
func TestTablesMatchKafka(t *testing.T) {
	for scope, file := range map[Scope]string{
		ScopeTopic: "topic", ScopeBroker: "broker", ScopeGroup: "group", ScopeClientMetrics: "client-metrics",
	} {
		t.Run(file, func(t *testing.T) {
			want := readTable(t, "testdata/config-"+file+".tsv")
			for name, row := range want {
				k, ok := Lookup(scope, name)
				if !ok {
					t.Errorf("%s is missing", name)
					continue
				}
				if diff := cmp.Diff(row, describeAsRow(scope, k, row)); diff != "" {
					t.Errorf("%s (-kafka +ours):\n%s", name, diff)
				}
			}
			for _, k := range tableOf(scope).keys {
				if _, ok := want[k.Name]; !ok && !k.Ours && !k.Internal {
					t.Errorf("%s is not a setting of Kafka and not marked as ours or internal", k.Name)
				}
			}
		})
	}
}

type tableRow struct{ Type, Default, Update, Synonyms string }

func readTable(t *testing.T, path string) map[string]tableRow {
	t.Helper()
	data, err := tables.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]tableRow{}
	for _, line := range strings.Split(strings.TrimRight(string(data), "\n"), "\n")[1:] {
		f := strings.Split(line, "\t")
		row := tableRow{Type: f[1], Default: f[2], Update: strings.TrimSuffix(f[3], ",set-here"), Synonyms: f[4]}
		if strings.HasSuffix(f[3], ",set-here") {
			d, ok := kafkaDefault[f[0]]
			if !ok {
				t.Fatalf("no default known for %s", f[0])
			}
			row.Default = d
		}
		rows[f[0]] = row
	}
	return rows
}

// describeAsRow describes k on a broker that sets nothing, in the table's terms.
func describeAsRow(scope Scope, k Key, kafka tableRow) tableRow {
	d := Effective(scope).Describe(k.Name)
	row := tableRow{Type: d.Type.String(), Default: "-", Update: "dynamic"}
	if d.Value != nil {
		row.Default = *d.Value
		if *d.Value == "" {
			row.Default = "''"
		}
	}
	if d.ReadOnly {
		row.Update = "read-only"
	}
	if d.Sensitive {
		row.Update += ",sensitive"
	}
	var names []string
	for _, s := range d.Synonyms {
		names = append(names, s.Name)
	}
	row.Synonyms = strings.Join(names, ",")
	if len(names) == 0 && kafka.Synonyms == k.Name && d.Value == nil {
		// The peer sets this key, which has no default of its own.
		row.Synonyms = k.Name
	}
	return row
}

// TestDefaultTopicConfig: the constant defaults that storage tests use are the
// table's defaults.
func TestDefaultTopicConfig(t *testing.T) {
	if diff := cmp.Diff(DefaultTopicConfig(), ToTopicConfig(Effective(ScopeTopic))); diff != "" {
		t.Errorf("-constant +table:\n%s", diff)
	}
}

// TestDefaultsAreValid: every default passes its own checks.
func TestDefaultsAreValid(t *testing.T) {
	for _, scope := range []Scope{ScopeTopic, ScopeBroker, ScopeGroup, ScopeClientMetrics} {
		for _, k := range tableOf(scope).keys {
			if k.Doc == "" || !k.InForce && k.NotInForce == "" {
				t.Errorf("%s lacks words", k.Name)
			}
			if k.Default == nil {
				continue
			}
			if err := Validate(scope, k.Name, *k.Default); err != nil {
				t.Errorf("default refused: %v", err)
			}
		}
	}
}

func TestSynonymsExist(t *testing.T) {
	for topic, synonyms := range topicSynonyms {
		for _, s := range synonyms {
			if _, ok := Lookup(ScopeBroker, s.name); !ok {
				t.Errorf("%s: broker key %s does not exist", topic, s.name)
			}
		}
		if _, ok := Lookup(ScopeTopic, topic); !ok {
			t.Errorf("topic key %s does not exist", topic)
		}
	}
	for group, s := range groupSynonyms {
		if _, ok := Lookup(ScopeBroker, s); !ok {
			t.Errorf("%s: broker key %s does not exist", group, s)
		}
	}
	for _, o := range omitted {
		if _, ok := Lookup(ScopeBroker, o.name); ok {
			t.Errorf("%s is both known and left out", o.name)
		}
	}
}

// TestDocs keeps docs/configuration.md in step with the tables.
func TestDocs(t *testing.T) {
	var b bytes.Buffer
	if err := WriteDocs(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "configuration.md")
	if *updateDocs {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, b.Bytes()) {
		t.Error("docs/configuration.md is stale; run: go test ./internal/config -run TestDocs -update")
	}
}

func ExampleValidate() {
	fmt.Println(Validate(ScopeTopic, "retention.mss", "1"))
	fmt.Println(Validate(ScopeTopic, "segment.bytes", "1000"))
	fmt.Println(Validate(ScopeTopic, "log.retention.ms", "1"))
	// Output:
	// retention.mss: there is no such topic setting; did you mean retention.ms?
	// segment.bytes=1000: must be at least 1048576
	// log.retention.ms: there is no such topic setting; it is a broker setting; did you mean retention.ms?
}
