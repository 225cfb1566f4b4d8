package peer

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// parallelConsumerVersion is the one that pom.xml names.
const parallelConsumerVersion = "0.5.3.3"

// ParallelConsumer is Confluent's parallel-consumer with a small program of ours
// around it, which reads a topic and says how fast.
type ParallelConsumer struct{ source, jars string }

// NewParallelConsumer fetches its jars from Maven once, or says why it cannot run
// here.
func NewParallelConsumer(root string) (*ParallelConsumer, error) {
	for tool, pkg := range map[string]string{"javac": "openjdk-17-jdk-headless", "mvn": "maven"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is missing (apt-get install -y %s)", tool, pkg)
		}
	}
	cache := os.Getenv("PEERS") // as test/peers/kafka has it
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		cache = filepath.Join(dir, "kafka-peer")
	}
	folder := filepath.Join(root, "bench", "parallelconsumer")
	p := &ParallelConsumer{source: filepath.Join(folder, "Rate.java"), jars: filepath.Join(cache, "parallel-consumer-"+parallelConsumerVersion)}
	if _, err := os.Stat(p.jars); err == nil {
		return p, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	part, err := os.MkdirTemp(cache, "parallel-consumer-part-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(part)
	out, err := exec.Command("mvn", "-q", "-B", "-f", filepath.Join(folder, "pom.xml"), "dependency:copy-dependencies",
		"-DoutputDirectory="+filepath.Join(part, "jars"), "-DincludeScope=runtime").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("its jars: %w: %s", err, bytes.TrimSpace(out))
	}
	return p, os.Rename(filepath.Join(part, "jars"), p.jars)
}

// Version is that of the library.
func (p *ParallelConsumer) Version() string { return parallelConsumerVersion }

// Rate reads a topic rounds times, each with a group of its own, and returns
// records a second of every round.
func (p *ParallelConsumer) Rate(ctx context.Context, addr, topic, group string, records, parallel, rounds int) ([]float64, error) {
	cmd := exec.CommandContext(ctx, "java", "-cp", filepath.Join(p.jars, "*"), p.source,
		addr, topic, group, strconv.Itoa(records), strconv.Itoa(parallel), strconv.Itoa(rounds))
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	var rates []float64
	for _, field := range strings.Fields(string(out)) {
		rate, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return nil, fmt.Errorf("it printed %q", out)
		}
		rates = append(rates, rate)
	}
	if len(rates) != rounds {
		return nil, fmt.Errorf("it printed %q", out)
	}
	return rates, nil
}
