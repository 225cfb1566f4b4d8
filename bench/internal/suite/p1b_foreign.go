package suite

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/bench/internal/load"
	"github.com/tidemark-io/tidemark/bench/internal/peer"
	"github.com/tidemark-io/tidemark/bench/internal/report"
)

// foreignRecords is how many records each client sends.
func (r *Run) foreignRecords() int {
	if r.o.Quick {
		return 500_000
	}
	return 2_000_000
}

// foreign is P1b: the same work through Kafka's own producer and librdkafka.
// The client takes most of this box, so the figure says what a user of that
// client sees, not what the broker can do.
func (r *Run) foreign() error {
	r.up()
	lines := filepath.Join(r.o.Dir, "lines.txt")
	if _, err := exec.LookPath("kcat"); err != nil {
		r.Out.Absent["P1b with kcat (librdkafka)"] = "kcat is missing (apt-get install -y kcat)"
	} else if err := writeLines(lines, r.foreignRecords()); err != nil {
		return err
	}
	for range r.rounds("P1b", max(r.o.Pairs/2, 1)) {
		for _, p := range r.running {
			if isCeiling(p) {
				continue
			}
			if r.over("P1b on " + p.Name()) {
				return nil
			}
			if err := r.perfTest(p); err != nil {
				r.fail("P1b kafka-producer-perf-test on "+p.Name(), err)
			}
			if err := r.kcat(p, lines); err != nil {
				r.fail("P1b kcat on "+p.Name(), err)
			}
		}
	}
	return nil
}

func (r *Run) foreignTopic(p peer.Peer) (string, func(), error) {
	topic := r.topic()
	err := load.CreateTopics(p.Addr(), load.Topic{Name: topic, Partitions: 6})
	return topic, func() { _ = load.DeleteTopic(p.Addr(), topic) }, err
}

var perfLine = regexp.MustCompile(`records sent, [\d.]+ records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, .*?, \d+ ms 50th, \d+ ms 95th, (\d+) ms 99th`)

// perfTest runs kafka-producer-perf-test, whose MB are MiB.
func (r *Run) perfTest(p peer.Peer) error {
	if _, absent := r.Out.Absent[peer.Kafka]; absent {
		return nil // its jars are not there
	}
	topic, drop, err := r.foreignTopic(p)
	if err != nil {
		return err
	}
	defer drop()
	settle()
	cmd := exec.Command("bash", peer.Script(r.o.Root), "run", "producer-perf-test", "--topic", topic,
		"--num-records", strconv.Itoa(r.foreignRecords()), "--record-size", "100", "--throughput", "-1",
		"--command-property", "bootstrap.servers="+p.Addr(), "acks=all", "batch.size=65536", "linger.ms=5")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, tail(out))
	}
	all := perfLine.FindAllSubmatch(out, -1)
	if len(all) == 0 {
		return fmt.Errorf("no result in: %s", tail(out))
	}
	last := all[len(all)-1]
	mib, err := strconv.ParseFloat(string(last[1]), 64)
	if err != nil {
		return err
	}
	r.add(report.Series{Row: "P1b", Case: "kafka-producer-perf-test, 100 B, batch 64 KiB, 6 p", Metric: "throughput", Unit: "MB/s", System: p.Name()}, mib*(1<<20)/1e6)
	return nil
}

func tail(b []byte) string {
	b = bytes.TrimSpace(b)
	return string(b[max(0, len(b)-600):])
}

func writeLines(name string, n int) error {
	var b bytes.Buffer
	line := strings.Repeat("the quick brown fox ", 5)[:99] + "\n"
	for range n {
		b.WriteString(line)
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

func (r *Run) kcat(p peer.Peer, lines string) error {
	if _, err := os.Stat(lines); err != nil {
		return nil // absent, and said so
	}
	topic, drop, err := r.foreignTopic(p)
	if err != nil {
		return err
	}
	defer drop()
	settle()
	in, err := os.Open(lines)
	if err != nil {
		return err
	}
	defer in.Close()
	cmd := exec.Command("kcat", "-P", "-b", p.Addr(), "-t", topic, "-X", "acks=all", "-X", "linger.ms=5", "-X", "batch.size=65536",
		"-X", "queue.buffering.max.messages=1000000")
	cmd.Stdin = in
	at := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, tail(out))
	}
	took := time.Since(at).Seconds()
	ends, err := load.Ends(p.Addr(), topic, 6)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, e := range ends {
		total += e
	}
	if total != int64(r.foreignRecords()) {
		return fmt.Errorf("%d of %d lines arrived", total, r.foreignRecords())
	}
	r.add(report.Series{Row: "P1b", Case: "kcat (librdkafka), 99 B, batch 64 KiB, 6 p", Metric: "throughput", Unit: "MB/s", System: p.Name()}, float64(total)*99/1e6/took)
	return nil
}
