package conformance

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// peer is one of the two brokers that every tool runs against.
type peer struct {
	name      string
	bootstrap string
	dir       string // folder of the partitions
}

// TestKafkaTools runs Apache Kafka's own command-line tools against Tidemark and
// against Apache Kafka, and compares what they print.
func TestKafkaTools(t *testing.T) {
	testkit.NeedJava(t)
	s := testkit.StartServer(t, "", "--set", "node.id=1")
	k := testkit.StartKafka(t)
	tools := &toolbox{t: t, peers: []peer{
		{"tidemark", s.Bootstrap(), s.Dir},
		{"kafka", k.Bootstrap(), filepath.Join(k.Dir, "1", "data")},
	}}
	t.Run("topics", tools.topics)
	t.Run("console", tools.console)
	t.Run("configs", tools.configs)
	t.Run("get-offsets", tools.getOffsets)
	t.Run("delete-records", tools.deleteRecords)
	t.Run("log-dirs", tools.logDirs)
	t.Run("cluster", tools.cluster)
	t.Run("metadata-quorum", tools.quorum)
	t.Run("broker-api-versions", tools.apiVersions)
	t.Run("verifiable-producer", tools.verifiableProducer)
	t.Run("producer-perf-test", tools.perfTest)
	s.Stop() // so that every file is whole on disk
	t.Run("dump-log", tools.dumpLog)
}

type toolbox struct {
	t     *testing.T
	peers []peer
}

// tool runs one tool on one peer and fails on a non-zero exit.
func tool(t *testing.T, stdin string, p peer, name string, args ...string) string {
	t.Helper()
	argv := []string{testkit.PeerScript(), "run", name}
	if p.bootstrap != "" {
		argv = append(argv, "--bootstrap-server", p.bootstrap)
	}
	cmd := exec.Command("bash", append(argv, args...)...)
	cmd.Env = append(os.Environ(), "KAFKA_TOOL_OPTS="+testkit.ToolOpts)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s on %s: %v\n%s", name, p.name, err, out)
	}
	return string(out)
}

// same runs a tool on both peers and compares the answers after the scrub.
func (b *toolbox) same(t *testing.T, name string, args ...string) {
	t.Helper()
	b.sameAfter(t, scrub, name, args...)
}

func (b *toolbox) sameAfter(t *testing.T, clean func(peer, string) string, name string, args ...string) {
	t.Helper()
	var outs []string
	for _, p := range b.peers {
		outs = append(outs, clean(p, tool(t, "", p, name, args...)))
	}
	if outs[0] != outs[1] {
		t.Errorf("%s %s differs\n--- tidemark\n%s\n--- kafka\n%s", name, strings.Join(args, " "), outs[0], outs[1])
	}
}

var (
	uuidish   = regexp.MustCompile(`\b[A-Za-z0-9_-]{22}\b`)
	localPort = regexp.MustCompile(`(127\.0\.0\.1|localhost)(:|\s+)\d+`)
)

// scrub removes what must differ between two clusters: ids, ports, folders.
func scrub(p peer, out string) string {
	out = strings.ReplaceAll(out, p.dir, "DIR")
	out = localPort.ReplaceAllString(out, "HOST:PORT")
	return strings.TrimSpace(uuidish.ReplaceAllString(out, "ID"))
}

func (b *toolbox) topics(t *testing.T) {
	b.same(t, "topics", "--create", "--topic", "tools", "--partitions", "3", "--config", "retention.ms=3600000")
	b.same(t, "topics", "--create", "--topic", "gone", "--partitions", "1")
	b.same(t, "topics", "--describe", "--topic", "tools")
	b.same(t, "topics", "--list")
	b.same(t, "topics", "--alter", "--topic", "tools", "--partitions", "4")
	b.same(t, "topics", "--describe")
	b.same(t, "topics", "--delete", "--topic", "gone")
	b.same(t, "topics", "--list")
}

// console: every codec through Java's producer and consumer; the plain one is
// compared with Kafka's answer.
func (b *toolbox) console(t *testing.T) {
	roundTrip := func(p peer, topic, codec string) string {
		tool(t, "k1:one\nk2:two\nk3:three\n", p, "console-producer", "--topic", topic,
			"--compression-codec", codec, "--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
		return tool(t, "", p, "console-consumer", "--topic", topic, "--partition", "0", "--offset", "earliest",
			"--max-messages", "3", "--timeout-ms", "20000", "--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")
	}
	want := roundTrip(b.peers[1], "console-none", "none")
	for _, codec := range allCodecs {
		if got := roundTrip(b.peers[0], "console-"+codec, codec); got != want || !strings.Contains(got, "three") {
			t.Errorf("%s\n--- tidemark\n%s\n--- kafka\n%s", codec, got, want)
		}
	}
}

func (b *toolbox) configs(t *testing.T) {
	b.same(t, "configs", "--alter", "--entity-type", "topics", "--entity-name", "tools", "--add-config", "max.message.bytes=2000000,cleanup.policy=[compact,delete]")
	b.same(t, "configs", "--describe", "--entity-type", "topics", "--entity-name", "tools")
	b.sameAfter(t, scrubTopicConfigs, "configs", "--describe", "--all", "--entity-type", "topics", "--entity-name", "tools")
	b.same(t, "configs", "--alter", "--entity-type", "topics", "--entity-name", "tools", "--delete-config", "max.message.bytes")
	b.same(t, "configs", "--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "log.retention.ms=7200000")
	b.same(t, "configs", "--describe", "--entity-type", "brokers", "--entity-default")
	b.same(t, "configs", "--describe", "--entity-type", "topics", "--entity-name", "tools")
	b.same(t, "configs", "--alter", "--entity-type", "brokers", "--entity-default", "--delete-config", "log.retention.ms")
}

// scrubTopicConfigs also drops the one topic config that is ours.
func scrubTopicConfigs(p peer, out string) string {
	var keep []string
	for line := range strings.Lines(scrub(p, out)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "durability=") {
			keep = append(keep, strings.TrimRight(line, "\n"))
		}
	}
	return strings.Join(keep, "\n")
}

func (b *toolbox) getOffsets(t *testing.T) {
	for _, when := range []string{"-1", "-2", "-4", "-5", "0"} { // -3 depends on the milliseconds of each record: case C051
		b.same(t, "get-offsets", "--topic", "console-none", "--time", when)
	}
}

func (b *toolbox) deleteRecords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "offsets.json")
	content := `{"partitions":[{"topic":"console-none","partition":0,"offset":2}],"version":1}`
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	b.same(t, "delete-records", "--offset-json-file", file)
	b.same(t, "get-offsets", "--topic", "console-none", "--time", "-2")
}

// logDirs compares sizes to the byte, so the record has a time of its own: the
// console producer's records take more bytes the further they are apart.
func (b *toolbox) logDirs(t *testing.T) {
	for _, p := range b.peers {
		newTopic(t, p.bootstrap, "sized")
		cl, err := kgo.NewClient(kgo.SeedBrokers(p.bootstrap))
		if err != nil {
			t.Fatal(err)
		}
		r := &kgo.Record{Topic: "sized", Value: []byte("a value"), Timestamp: time.Now()}
		err = cl.ProduceSync(context.Background(), r).FirstErr()
		cl.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	free := regexp.MustCompile(`"(totalBytes|usableBytes)":\d+`)
	b.sameAfter(t, func(p peer, out string) string {
		return free.ReplaceAllString(scrub(p, out), `"$1":N`)
	}, "log-dirs", "--describe", "--topic-list", "sized")
}

func (b *toolbox) cluster(t *testing.T) {
	for _, p := range b.peers {
		out := tool(t, "", peer{name: p.name}, "cluster", "cluster-id", "--bootstrap-server", p.bootstrap)
		if !regexp.MustCompile(`Cluster ID: \S{22}`).MatchString(out) {
			t.Errorf("%s: %s", p.name, out)
		}
	}
	var outs []string
	for _, p := range b.peers {
		outs = append(outs, scrub(p, tool(t, "", peer{name: p.name}, "cluster", "list-endpoints", "--bootstrap-server", p.bootstrap)))
	}
	if outs[0] != outs[1] {
		t.Errorf("list-endpoints differs\n--- tidemark\n%s\n--- kafka\n%s", outs[0], outs[1])
	}
}

func (b *toolbox) quorum(t *testing.T) {
	numbers := regexp.MustCompile(`(LeaderEpoch|HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs):\s+\d+`)
	clean := func(p peer, out string) string {
		return numbers.ReplaceAllString(scrub(p, out), "$1: N")
	}
	b.sameAfter(t, clean, "metadata-quorum", "describe", "--status")
	digits := regexp.MustCompile(`\d{2,}`)
	b.sameAfter(t, func(p peer, out string) string {
		return strings.Join(strings.Fields(digits.ReplaceAllString(scrub(p, out), "N")), " ")
	}, "metadata-quorum", "describe", "--replication")
}

// apiVersions: what we list is listed by Kafka with the same range.
func (b *toolbox) apiVersions(t *testing.T) {
	line := regexp.MustCompile(`(\w+)\((\d+)\): (\d+(?: to \d+)?)`)
	tables := make([]map[string]string, 2)
	for i, p := range b.peers {
		tables[i] = map[string]string{}
		for _, m := range line.FindAllStringSubmatch(tool(t, "", p, "broker-api-versions"), -1) {
			tables[i][m[1]] = m[3]
		}
	}
	if len(tables[0]) < 20 {
		t.Errorf("only %d APIs listed", len(tables[0]))
	}
	for name, versions := range tables[0] {
		if tables[1][name] != versions {
			t.Errorf("%s: %s, Kafka has %q", name, versions, tables[1][name])
		}
	}
}

func (b *toolbox) verifiableProducer(t *testing.T) {
	for _, p := range b.peers {
		out := tool(t, "", p, "verifiable-producer", "--topic", "verifiable", "--max-messages", "1000", "--acks", "-1")
		if !strings.Contains(out, `"sent":1000`) || !strings.Contains(out, `"acked":1000`) {
			t.Errorf("%s: %s", p.name, out[max(0, len(out)-400):])
		}
	}
}

func (b *toolbox) perfTest(t *testing.T) {
	p := b.peers[0]
	out := tool(t, "", peer{name: p.name}, "producer-perf-test", "--bootstrap-server", p.bootstrap, "--topic", "perf",
		"--num-records", "200000", "--record-size", "100", "--throughput", "-1")
	if !strings.Contains(out, "200000 records sent") {
		t.Errorf("perf test: %s", out)
	}
}

// dumpLog reads every file that the server left with Kafka's own decoder.
func (b *toolbox) dumpLog(t *testing.T) {
	dir := b.peers[0].dir
	for _, pattern := range []string{"*-*/*.log", "*-*/*.index", "*-*/*.timeindex", "*-*/*.snapshot", "*-*/*.txnindex"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		var data []string
		for _, f := range files {
			if !strings.Contains(f, "__cluster_metadata") && dumpable(f) {
				data = append(data, f)
			}
		}
		if len(data) == 0 {
			continue
		}
		out := tool(t, "", peer{name: "files"}, "dump-log", "--deep-iteration", "--files", strings.Join(data, ","))
		wantValid(t, out)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "__cluster_metadata-0", "*"))
	for _, f := range files {
		if ext := filepath.Ext(f); ext == ".log" || ext == ".checkpoint" {
			out := tool(t, "", peer{name: "files"}, "dump-log", "--cluster-metadata-decoder", "--files", f)
			wantValid(t, out)
			if ext == ".log" && !strings.Contains(out, "REGISTER_BROKER_RECORD") {
				t.Errorf("%s has no broker registration:\n%s", f, out[:min(len(out), 2000)])
			}
		}
	}
}

// dumpable says whether Kafka's decoder can read the file at all. It takes the
// first zero entry of a preallocated index for a batch, and fails on its own files
// too when the log beside it is empty (DumpLogSegments.dumpIndex).
func dumpable(file string) bool {
	switch ext := filepath.Ext(file); ext {
	case ".index", ".timeindex":
		return !empty(file) && !empty(strings.TrimSuffix(file, ext)+".log")
	default:
		return !empty(file)
	}
}

// empty is true for a file without a byte, and for none: a retired folder may go
// while it is looked at.
func empty(file string) bool {
	info, err := os.Stat(file)
	return err != nil || info.Size() == 0
}

var badDump = regexp.MustCompile(`(?i)isvalid: false|invalid|exception|mismatch|corrupt|error`)

func wantValid(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if badDump.MatchString(line) && !strings.Contains(line, "isvalid: true") {
			t.Errorf("dump-log says: %s", line)
			return
		}
	}
	if strings.TrimSpace(out) == "" {
		t.Error("dump-log printed nothing")
	}
}
