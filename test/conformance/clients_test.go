package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

const records = 500

var wantSum = records * (records + 1) / 2

// client produces and consumes numbered records with somebody else's library.
// consume may be nil for libraries that only read in groups.
type client struct {
	name    string
	codecs  []string
	produce func(t *testing.T, bootstrap, topic, codec string)
	consume func(t *testing.T, bootstrap, topic string) int
}

var allCodecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

func TestForeignClients(t *testing.T) {
	s := testkit.StartServer(t, "")
	clients := []client{
		{"franz-go", allCodecs, kgoProduce, kgoConsume},
		goClient(t, "sarama", allCodecs),
		goClient(t, "kafkago", allCodecs),
		kcat(t),
		confluentPython(t),
		kafkaJS(t),
	}
	topicOf := func(c client, codec string) string { return "clients-" + c.name + "-" + codec }
	for _, c := range clients {
		for _, codec := range c.codecs {
			t.Run(c.name+"/produce/"+codec, func(t *testing.T) {
				topic := topicOf(c, codec)
				newTopic(t, s.Bootstrap(), topic)
				c.produce(t, s.Bootstrap(), topic, codec)
				wantCodec(t, s, topic, codec)
				if got := kgoConsume(t, s.Bootstrap(), topic); got != wantSum {
					t.Errorf("franz-go reads a sum of %d, want %d", got, wantSum)
				}
			})
		}
	}
	for _, c := range clients {
		if c.consume == nil {
			continue
		}
		for _, codec := range allCodecs {
			t.Run(c.name+"/consume/"+codec, func(t *testing.T) {
				if got := c.consume(t, s.Bootstrap(), topicOf(clients[0], codec)); got != wantSum {
					t.Errorf("%s reads a sum of %d, want %d", c.name, got, wantSum)
				}
			})
		}
	}
}

func newTopic(t *testing.T, bootstrap, topic string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if r, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 1, nil, topic); err != nil || r.Err != nil {
		t.Fatalf("create %s: %v, %v", topic, err, r.Err)
	}
}

// wantCodec checks that the batches on disk are compressed as they were sent.
func wantCodec(t *testing.T, s *testkit.Server, topic, codec string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Dir, topic+"-0", "00000000000000000000.log"))
	if err != nil || len(data) < 61 {
		t.Fatalf("segment of %s: %d bytes, %v", topic, len(data), err)
	}
	if got := allCodecs[data[22]&7]; got != codec {
		t.Errorf("first batch is stored as %s, was sent as %s", got, codec)
	}
}

func kgoProduce(t *testing.T, bootstrap, topic, codec string) {
	t.Helper()
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codecs[codec]))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var recs []*kgo.Record
	for i := 1; i <= records; i++ {
		recs = append(recs, kgo.StringRecord(strconv.Itoa(i)))
	}
	if err := cl.ProduceSync(ctx, recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func kgoConsume(t *testing.T, bootstrap, topic string) int {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {0: kgo.NewOffset().AtStart()},
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sum, n := 0, 0
	for n < records && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			v, err := strconv.Atoi(string(r.Value))
			if err != nil {
				t.Errorf("offset %d reads %q", r.Offset, r.Value)
			}
			sum += v
			n++
		})
	}
	return sum
}

// command runs a program and returns what it prints on standard output.
func command(t *testing.T, stdin, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func sumOf(t *testing.T, out string) int {
	t.Helper()
	sum := 0
	for _, line := range strings.Fields(out) {
		v, err := strconv.Atoi(line)
		if err != nil {
			t.Fatalf("read %q", line)
		}
		sum += v
	}
	return sum
}

func clientsDir() string { return filepath.Join(testkit.Root(), "test", "conformance", "clients") }

// goClient builds a client of clients/ and runs it.
func goClient(t *testing.T, name string, codecs []string) client {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", "build", "-o", bin, "./"+name)
	cmd.Dir = clientsDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return client{name, codecs,
		func(t *testing.T, bootstrap, topic, codec string) {
			command(t, "", bin, "produce", bootstrap, topic, codec, strconv.Itoa(records))
		},
		func(t *testing.T, bootstrap, topic string) int {
			return sumOf(t, command(t, "", bin, "consume", bootstrap, topic, "none", strconv.Itoa(records)))
		},
	}
}

// need finds a program or says how to install it.
func need(t *testing.T, program, install string) bool {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return true
	}
	if os.Getenv("TESTKIT_NEED_PEERS") != "" {
		t.Fatalf("%s is missing and TESTKIT_NEED_PEERS is set: %s", program, install)
	}
	t.Logf("LEFT OUT: %s is missing: %s", program, install)
	return false
}

// kcat is Debian's kcat on an old librdkafka (2.0): the old client of case C004.
func kcat(t *testing.T) client {
	if !need(t, "kcat", "apt-get install -y kcat") {
		return client{name: "kcat"}
	}
	var numbers strings.Builder
	for i := 1; i <= records; i++ {
		fmt.Fprintln(&numbers, i)
	}
	return client{"kcat", allCodecs,
		func(t *testing.T, bootstrap, topic, codec string) {
			command(t, numbers.String(), "kcat", "-b", bootstrap, "-P", "-t", topic, "-p", "0", "-z", codec)
		},
		func(t *testing.T, bootstrap, topic string) int {
			return sumOf(t, command(t, "", "kcat", "-b", bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q"))
		},
	}
}

// cacheDir keeps what clients install between runs.
func cacheDir(t *testing.T, name string) string {
	t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	dir := filepath.Join(base, "tidemark-conformance", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func confluentPython(t *testing.T) client {
	if !need(t, "python3", "apt-get install -y python3 python3-venv") {
		return client{name: "confluent-kafka"}
	}
	venv := filepath.Join(cacheDir(t, "python"), "venv")
	python := filepath.Join(venv, "bin", "python")
	requirements := filepath.Join(clientsDir(), "requirements.txt")
	if exec.Command(python, "-c", "import confluent_kafka").Run() != nil {
		command(t, "", "python3", "-m", "venv", venv)
		command(t, "", python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", requirements)
	}
	script := filepath.Join(clientsDir(), "confluent.py")
	return client{"confluent-kafka", allCodecs,
		func(t *testing.T, bootstrap, topic, codec string) {
			command(t, "", python, script, "produce", bootstrap, topic, codec, strconv.Itoa(records))
		},
		func(t *testing.T, bootstrap, topic string) int {
			return sumOf(t, command(t, "", python, script, "consume", bootstrap, topic, "none", strconv.Itoa(records)))
		},
	}
}

// kafkaJS produces with the codecs that it has without native code; it consumes
// in groups only.
func kafkaJS(t *testing.T) client {
	if !need(t, "npm", "apt-get install -y nodejs npm") {
		return client{name: "kafkajs"}
	}
	dir := cacheDir(t, "kafkajs")
	for _, f := range []string{"package.json", "package-lock.json", "kafkajs.js"} {
		b, err := os.ReadFile(filepath.Join(clientsDir(), f))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, f), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "kafkajs")); err != nil {
		command(t, "", "npm", "ci", "--prefix", dir, "--no-audit", "--no-fund", "--silent")
	}
	return client{"kafkajs", []string{"none", "gzip", "snappy"},
		func(t *testing.T, bootstrap, topic, codec string) {
			command(t, "", "node", filepath.Join(dir, "kafkajs.js"), "produce", bootstrap, topic, codec, strconv.Itoa(records))
		}, nil,
	}
}
