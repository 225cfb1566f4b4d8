package faults

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

// halfAMinute bounds one send: no answer for so long is a failure on a slow
// machine too.
func halfAMinute() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	context.AfterFunc(ctx, cancel)
	return ctx
}

func newTopicWith(t *testing.T, bootstrap, topic string, partitions int32, configs map[string]string) {
	t.Helper()
	ad, ctx := admin(t, bootstrap)
	values := map[string]*string{}
	for k, v := range configs {
		values[k] = &v
	}
	if resp, err := ad.CreateTopic(ctx, partitions, 1, values, topic); err != nil || resp.Err != nil {
		t.Fatalf("create %s: %v, %v", topic, err, resp.Err)
	}
}

// offsets returns the start and the end of partition 0.
func offsets(t *testing.T, ad *kadm.Client, ctx context.Context, topic string) (start, end int64) {
	t.Helper()
	ss, err1 := ad.ListStartOffsets(ctx, topic)
	es, err2 := ad.ListEndOffsets(ctx, topic)
	so, ok1 := ss.Lookup(topic, 0)
	eo, ok2 := es.Lookup(topic, 0)
	if err1 != nil || err2 != nil || !ok1 || !ok2 || so.Err != nil || eo.Err != nil {
		t.Fatalf("offsets of %s: %v %v %v %v", topic, err1, err2, so.Err, eo.Err)
	}
	return so.Offset, eo.Offset
}

// patience bounds every wait of the suite: a condition, never a measurement. Beside
// other work a disk may take seconds for what it does in milliseconds.
const patience = 3 * time.Minute

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("after %v still not: %s", patience, what)
}

// TestRetention lets records go by size, by age, by DeleteRecords, and rolls
// segments by age; restarts of both kinds keep what is left, and nothing comes
// back.
func TestRetention(t *testing.T) {
	s := testkit.StartServer(t, "", "--set", "log.retention.check.interval.ms=50", "--set", "log.segment.delete.delay.ms=0")
	ad, ctx := admin(t, s.Bootstrap())
	newTopicWith(t, s.Bootstrap(), "size", 1, map[string]string{"retention.bytes": "2000000", "segment.bytes": "1048576"})
	newTopicWith(t, s.Bootstrap(), "age", 1, map[string]string{"retention.ms": "500", "segment.bytes": "1048576"})
	newTopicWith(t, s.Bootstrap(), "roll", 1, map[string]string{"segment.ms": "100"})
	newTopicWith(t, s.Bootstrap(), "cut", 1, nil)
	size, age, roll, cut := producer(t, s.Bootstrap(), "size"), producer(t, s.Bootstrap(), "age"), producer(t, s.Bootstrap(), "roll"), producer(t, s.Bootstrap(), "cut")
	for n := range 60 {
		for _, err := range []error{send(size, n, 100_000), send(cut, n, 10)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := range 3 {
		if err := send(age, n, 10); err != nil {
			t.Fatal(err)
		}
		if err := send(roll, n, 10); err != nil {
			t.Fatal(err)
		}
		time.Sleep(150 * time.Millisecond) // longer than segment.ms
	}
	eventually(t, "records beyond retention.bytes go", func() bool { start, end := offsets(t, ad, ctx, "size"); return end == 60 && start >= 30 && start < 60 })
	eventually(t, "records older than retention.ms go", func() bool { start, end := offsets(t, ad, ctx, "age"); return end == 3 && start == 3 })
	if files, _ := filepath.Glob(filepath.Join(s.Dir, "roll-0", "*.log")); len(files) < 2 {
		t.Errorf("segment.ms rolled nothing: %v", files)
	}
	ds := kadm.Offsets{}
	ds.AddOffset("cut", 0, 41, -1)
	if resp, err := ad.DeleteRecords(ctx, ds); err != nil || resp.Error() != nil {
		t.Fatal(err, resp.Error())
	}
	eventually(t, "the checkpoint has the new start", func() bool {
		b, _ := os.ReadFile(filepath.Join(s.Dir, "log-start-offset-checkpoint"))
		return strings.Contains(string(b), "cut 0 41")
	})
	sizeStart, _ := offsets(t, ad, ctx, "size")
	for _, stop := range []func(){s.Kill, s.Stop} {
		stop()
		s.Start()
		if start, end := offsets(t, ad, ctx, "cut"); start != 41 || end != 60 {
			t.Errorf("after DeleteRecords to 41 and a restart the log is %d to %d", start, end)
		}
		if start, end := offsets(t, ad, ctx, "age"); start != 3 || end != 3 {
			t.Errorf("after a restart the expired log is %d to %d", start, end)
		}
		if start, _ := offsets(t, ad, ctx, "size"); start < sizeStart {
			t.Errorf("after a restart deleted records are back: start %d, was %d", start, sizeStart)
		}
	}
	if err := send(producer(t, s.Bootstrap(), "age"), 3, 10); err != nil {
		t.Errorf("the expired log takes no record: %v", err)
	}
}

// TestDeleteWhileProducing deletes a topic and makes it again while a producer
// writes to it, and restarts in between: the new topic holds only what was
// acknowledged since, and no folder is left behind.
func TestDeleteWhileProducing(t *testing.T) {
	s := testkit.StartServer(t, "", "--set", "log.segment.delete.delay.ms=0")
	ad, ctx := admin(t, s.Bootstrap())
	const topic = "again"
	for round := range 4 {
		newTopicWith(t, s.Bootstrap(), topic, 3, nil)
		cl := producer(t, s.Bootstrap(), topic)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					_ = cl.ProduceSync(halfAMinute(), &kgo.Record{Partition: int32(n % 3), Value: []byte(strconv.Itoa(n) + ":")}).FirstErr()
				}
			}
		}()
		eventually(t, "records are there", func() bool { _, end := offsets(t, ad, ctx, topic); return end > 20 })
		if _, err := ad.DeleteTopic(ctx, topic); err != nil {
			t.Fatal(err)
		}
		if round%2 == 1 {
			s.Kill()
			s.Start()
		}
		close(stop)
		<-done
		newTopicWith(t, s.Bootstrap(), topic, 3, nil)
		if start, end := offsets(t, ad, ctx, topic); start != 0 || end != 0 {
			t.Fatalf("round %d: the new topic begins with %d to %d", round, start, end)
		}
		fresh := producer(t, s.Bootstrap(), topic)
		l := newLedger()
		for n := range 5 {
			if err := send(fresh, n, 10); err != nil {
				t.Fatal(err)
			}
			l.ack(0, n)
		}
		l.check(t, readAll(t, s.Bootstrap(), topic, 3))
		if _, err := ad.DeleteTopic(ctx, topic); err != nil {
			t.Fatal(err)
		}
	}
	var left []string
	eventually(t, "folders of deleted topics go", func() bool {
		left, _ = filepath.Glob(filepath.Join(s.Dir, topic+"-*"))
		return len(left) == 0
	})
	s.Stop()
}

// TestRewrittenBatches sends to a topic that stamps its own time and compresses
// again, over kills: once, in order, and readable.
func TestRewrittenBatches(t *testing.T) {
	const topic = "rewritten"
	s := testkit.StartServer(t, "")
	newTopicWith(t, s.Bootstrap(), topic, 2, map[string]string{"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"})
	l := newLedger()
	stop := load(t, s.Bootstrap(), topic, 2, l)
	for range 4 {
		waitForAcks(t, l, l.count()+300)
		s.Kill()
		before := l.count()
		s.Start()
		waitForAcks(t, l, before+1)
	}
	stop()
	l.check(t, readAll(t, s.Bootstrap(), topic, 2))
}

// TestDurabilityPerTopic writes to topics of each durability and changes one at
// run time: in strict nothing that is acknowledged waits for the disk, and the
// metric tells the others.
func TestDurabilityPerTopic(t *testing.T) {
	s := testkit.StartServer(t, "")
	ad, ctx := admin(t, s.Bootstrap())
	for _, d := range []string{"strict", "replicated", "relaxed"} {
		newTopicWith(t, s.Bootstrap(), d, 1, map[string]string{"durability": d})
		l := newLedger()
		stop := load(t, s.Bootstrap(), d, 1, l)
		waitForAcks(t, l, 500)
		if d == "strict" && !strings.Contains(metric(t, s.Admin, "tidemark_acked_not_durable_bytes"), " 0\n") {
			t.Errorf("in strict durability %s", metric(t, s.Admin, "tidemark_acked_not_durable_bytes"))
		}
		next := map[string]string{"strict": "relaxed", "replicated": "strict", "relaxed": "strict"}[d]
		if _, err := ad.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "durability", Value: &next}}, d); err != nil {
			t.Fatal(err)
		}
		waitForAcks(t, l, l.count()+500)
		s.Kill() // the page cache survives: nothing is lost in any of them
		before := l.count()
		s.Start()
		waitForAcks(t, l, before+1)
		stop()
		l.check(t, readAll(t, s.Bootstrap(), d, 1))
	}
	s.Stop()
	if _, err := os.Stat(filepath.Join(s.Dir, ".kafka_cleanshutdown")); err != nil {
		t.Error(err)
	}
}

// metric returns the lines of a metric on the admin listener.
func metric(t *testing.T, admin, name string) string {
	t.Helper()
	resp, err := http.Get("http://" + admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := ""
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, name) {
			out += line
		}
	}
	return out
}

// TestRetryAfterRestart: an idempotent producer whose five batches in flight were
// appended, but whose answers got lost, sends them again after a restart, however
// that came about: each is answered as what it was the first time.
func TestRetryAfterRestart(t *testing.T) {
	const topic = "retry"
	s := testkit.StartServer(t, "")
	newTopic(t, s.Bootstrap(), topic, 1)
	const pid = 4711
	for round, leave := range []func(){s.Kill, s.Stop, s.Kill, s.Stop} {
		for again := range 3 {
			for i := range 5 {
				seq := int64(round*5 + i)
				if code, offset := produceOnce(t, s.Bootstrap(), topic, pid, int32(seq)); code != 0 || offset != seq {
					t.Fatalf("round %d, sequence %d, time %d: code %d at offset %d", round, seq, again, code, offset)
				}
			}
			leave()
			s.Start()
		}
	}
}

// produceOnce sends one record of an idempotent producer.
func produceOnce(t *testing.T, bootstrap, topic string, pid int64, seq int32) (code int16, offset int64) {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch, HasProducer: true, ProducerID: pid, BaseSequence: seq})
	b.Append(time.Now().UnixMilli(), nil, []byte("x"))
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	req := &kmsg.ProduceRequest{Version: 9, Acks: -1, TimeoutMillis: 20_000, Topics: []kmsg.ProduceRequestTopic{{
		Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch}},
	}}}
	p := testkit.Do(testkit.Dial(t, bootstrap), req, kmsg.NewPtrProduceResponse()).Topics[0].Partitions[0]
	return p.ErrorCode, p.BaseOffset
}
