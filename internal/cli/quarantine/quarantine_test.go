package quarantine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/consumer"
	format "github.com/tidemark-io/tidemark/consumer/quarantine"
	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

const dlq = "orders.quarantine"

type bench struct {
	t      *testing.T
	broker string
	cl     *kgo.Client
}

// TestFake and TestTidemark run the same story in process and on Tidemark.
func TestFake(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, dlq), kfake.SeedTopics(2, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	story(newBench(t, c.ListenAddrs()[0]))
}

func TestTidemark(t *testing.T) {
	b := newBench(t, testkit.StartServer(t, "").Bootstrap())
	for topic, partitions := range map[string]int32{dlq: 1, "orders": 2} {
		if _, err := kadm.NewClient(b.cl).CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	story(b)
}

func newBench(t *testing.T, broker string) *bench {
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &bench{t, broker, cl}
}

// put quarantines event n of orders-0; redrives is how often it came back.
func (b *bench) put(n, redrives int) {
	b.t.Helper()
	headers := []kgo.RecordHeader{{Key: consumer.HeaderEventID, Value: []byte(fmt.Sprint("event-", n))}}
	for range redrives {
		headers = format.ForRedrive(headers)
	}
	headers = format.Append(headers, format.Origin{Topic: "orders", Offset: int64(n), Group: "billing", Attempts: 3, Reason: fmt.Sprint("503 for ", n), QuarantinedMs: 1})
	b.send(&kgo.Record{Topic: dlq, Key: []byte(fmt.Sprint("key-", n)), Value: []byte(fmt.Sprint("value-", n)), Headers: headers})
}

func (b *bench) send(r *kgo.Record) {
	b.t.Helper()
	if err := b.cl.ProduceSync(b.t.Context(), r).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

// want runs a command and checks its code and that its output has all parts, and
// none of those that start with "!".
func (b *bench) want(code int, args string, parts ...string) string {
	b.t.Helper()
	var out, errs bytes.Buffer
	a := &app.App{In: strings.NewReader(""), Out: &out, Err: &errs}
	root := &cobra.Command{Use: "tidemark", SilenceUsage: true, SilenceErrors: true}
	a.Bind(root)
	root.AddCommand(Command(a))
	root.SetArgs(append([]string{"-b", b.broker, "quarantine"}, strings.Fields(args)...))
	err := root.ExecuteContext(b.t.Context())
	if err != nil {
		a.Report(err)
	}
	if got := app.Code(err); got != code {
		b.t.Fatalf("%s: code %d, want %d\n%s%s", args, got, code, out.String(), errs.String())
	}
	for _, p := range parts {
		part, not := strings.CutPrefix(p, "!")
		if strings.Contains(out.String()+errs.String(), part) == not {
			b.t.Fatalf("%s: %q\n%s%s", args, p, out.String(), errs.String())
		}
	}
	return out.String()
}

// origin returns the values in the origin topic with their redrive counts.
func (b *bench) origin(n int) map[string]int {
	b.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.broker), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer cancel()
	got := map[string]int{}
	for len(got) < n {
		f := cl.PollFetches(ctx)
		if f.Err() != nil {
			b.t.Fatal(f.Err())
		}
		f.EachRecord(func(r *kgo.Record) {
			if _, again := got[string(r.Value)]; again {
				b.t.Errorf("%s was redriven twice", r.Value)
			}
			got[string(r.Value)] = format.Redrives(r.Headers)
			for _, h := range r.Headers {
				if h.Key == format.HeaderReason {
					b.t.Errorf("%s still has a quarantine header", r.Value)
				}
			}
			rec := consumer.Record{Headers: r.Headers}
			if rec.EventID() == "" {
				b.t.Errorf("%s lost its event id", r.Value)
			}
		})
	}
	return got
}

func story(b *bench) {
	for n := range 4 {
		b.put(n, 0)
	}
	b.put(4, 3)                                             // goes round in a loop
	b.send(&kgo.Record{Topic: dlq, Value: []byte{0xff, 0}}) // not of this format
	b.want(0, "list "+dlq, "orders/0:0", "503 for 3", "the record has no origin", "6 records, 0 handled")
	b.want(0, "list "+dlq+" --reason 503~for~2", "!orders/0:2")
	b.want(0, "show "+dlq+" 0:1", "value-1", "billing", "tm-reason: 503 for 1", "event-1")
	b.want(0, "show "+dlq+" 0:5 --format json", `"value": "base64:/wA="`, `"key": null`)
	b.want(1, "show "+dlq+" 0:99", "has no record at 0:99")
	b.want(1, "show "+dlq+" first", "PARTITION:OFFSET")
	b.want(1, "redrive "+dlq, "--all")
	b.want(1, "redrive "+dlq+" 0:1 --all", "not both")
	b.want(1, "redrive "+dlq+" --all --rate 0", "--rate")
	// Nothing happens without --apply.
	b.want(0, "redrive "+dlq+" 0:2", "would be redriven", "run it again with --apply")
	b.want(0, "list "+dlq, "6 records, 0 handled")
	// One from the middle, then the rest: it is not sent again.
	b.want(0, "redrive "+dlq+" 0:2 --apply", "redriven")
	b.want(0, "list "+dlq, "6 records, 1 handled", "!0:2 ")
	b.want(4, "redrive "+dlq+" 0:2 --apply", "handled already")
	b.want(0, "drop "+dlq+" 0:0 --apply", "dropped")
	b.want(4, "redrive "+dlq+" --all --apply --rate 1000", "redriven", "went back 3 times already", "no origin", "2 records refused")
	b.want(0, "list "+dlq, "6 records, 4 handled", "0:4", "0:5")
	got := b.origin(3)
	if fmt.Sprint(got) != "map[value-1:1 value-2:1 value-3:1]" {
		b.t.Errorf("origin: %v", got)
	}
	b.want(0, "redrive "+dlq+" 0:4 --max-redrives 9 --apply", "redriven")
	b.want(0, "drop "+dlq+" --all --apply", "dropped")
	var listed struct{ Records []entry }
	if err := json.Unmarshal([]byte(b.want(0, "list "+dlq+" --format json")), &listed); err != nil || len(listed.Records) != 0 {
		b.t.Errorf("%v %v", listed, err)
	}
	if got := b.origin(4); got["value-4"] != 4 {
		b.t.Errorf("origin: %v", got)
	}
	b.want(0, "list "+dlq+" --all", "0:0", "0:5", "yes")
}

// TestMarks: whatever the order, marks say exactly what was handled, and next
// never passes a record that waits.
func TestMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []int64
		next := int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "records") {
			next += rapid.Int64Range(1, 3).Draw(t, "gap")
			all = append(all, next)
		}
		m, handled := mark{}, map[int64]bool{}
		for _, o := range rapid.Permutation(all).Draw(t, "order") {
			m = m.with(o, all)
			handled[o] = true
			for _, o := range all {
				if m.handled(o) != handled[o] {
					t.Fatalf("%d: handled %v, want %v: %+v", o, m.handled(o), handled[o], m)
				}
			}
			for _, r := range m.done {
				if r.First <= m.next {
					t.Fatalf("a run touches next: %+v", m)
				}
			}
		}
		if m.next != next+1 || len(m.done) != 0 {
			t.Fatalf("all is handled: %+v", m)
		}
	})
}
