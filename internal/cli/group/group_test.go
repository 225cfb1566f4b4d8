package group

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer/beacon"
	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/ops/logbounds"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

// bench is a fake cluster with records in it and the command to run on it.
type bench struct {
	t      *testing.T
	broker string
	fake   *kfake.Cluster
}

func newBench(t *testing.T) *bench {
	t.Helper()
	c := testkit.StartGuardedFake(t, kfake.SeedTopics(2, "orders", "stock"), kfake.GroupMinSessionTimeout(time.Second))
	b := &bench{t, c.ListenAddrs()[0], c}
	cl := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 20 {
		r := &kgo.Record{Topic: "orders", Partition: int32(i % 2), Value: []byte("v"), Timestamp: time.UnixMilli(1_000_000 + int64(i))}
		if err := cl.ProduceSync(b.ctx(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *bench) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.broker)}, opts...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.CloseAllowingRebalance)
	return cl
}

// member joins a group, reads everything and commits it.
func (b *bench) member(group string, opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	cl := b.client(append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ClientID("reader"),
	}, opts...)...)
	for n := 0; n < 20; {
		f := cl.PollFetches(b.ctx())
		if err := f.Err(); err != nil {
			b.t.Fatal(err)
		}
		n += f.NumRecords()
	}
	if err := cl.CommitUncommittedOffsets(b.ctx()); err != nil {
		b.t.Fatal(err)
	}
	return cl
}

// run runs "group ARGS" and returns what it wrote and its exit code.
func (b *bench) run(args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	a := &app.App{In: strings.NewReader(""), Out: &out, Err: &errs}
	root := &cobra.Command{Use: "tidemark", SilenceUsage: true, SilenceErrors: true}
	a.Bind(root)
	root.AddCommand(Command(a))
	root.SetArgs(append([]string{"-b", b.broker, "group"}, args...))
	err := root.ExecuteContext(b.ctx())
	if err != nil {
		a.Report(err)
	}
	return out.String(), errs.String(), app.Code(err)
}

// want runs a command and checks its code and that its output has all parts.
func (b *bench) want(code int, args []string, parts ...string) string {
	b.t.Helper()
	out, errs, got := b.run(args...)
	if got != code {
		b.t.Errorf("group %s: code %d, want %d\n%s%s", strings.Join(args, " "), got, code, out, errs)
	}
	for _, p := range parts {
		if !strings.Contains(out+errs, p) {
			b.t.Errorf("group %s lacks %q\n%s%s", strings.Join(args, " "), p, out, errs)
		}
	}
	if strings.Contains(strings.ToLower(out), "lag") {
		b.t.Errorf("group %s calls something lag\n%s", strings.Join(args, " "), out)
	}
	return out
}

// TestC034 asks each group by its own type: a living KIP-848 group is never
// dead, and a classic one keeps its protocol.
func TestC034(t *testing.T) {
	b := newBench(t)
	b.member("cg", kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	b.member("kg", kgo.InstanceID("static-1"), kgo.Balancers(kgo.RangeBalancer()))

	b.want(0, []string{"list"}, "cg     consumer  Stable", "kg     classic   Stable")
	b.want(0, []string{"list", "--type", "consumer", "--format", "json"}, `"group": "cg"`)
	if out := b.want(0, []string{"list", "--type", "consumer"}); strings.Contains(out, "kg") {
		t.Errorf("the type filter lets kg through:\n%s", out)
	}
	out := b.want(0, []string{"describe", "cg", "kg"},
		"group cg  consumer  Stable  epoch ", "assignment epoch ", "assignor uniform", "group kg  classic  Stable  assignor range  1 member",
		"COMMITTED  POSITION  LOG END  UNCOMMITTED", "static-1")
	if strings.Contains(out, "Dead") {
		t.Errorf("a living group is called dead:\n%s", out)
	}
	b.want(0, []string{"members", "cg"}, "PROTOCOL", "consumer", "stable", "orders(0,1)", "reader")
	b.want(0, []string{"members", "kg"}, "static-1", "classic", "stable", "orders(0,1)")

	var got []description
	if err := json.Unmarshal([]byte(b.want(0, []string{"describe", "cg", "--format", "json"})), &got); err != nil {
		t.Fatal(err)
	}
	p := got[0].Partitions[0]
	if got[0].Type != "consumer" || got[0].Members[0].Protocol != "consumer" || *p.Committed != 10 || *p.Uncommitted != 0 || p.Position != nil {
		t.Errorf("%+v, partition 0 %+v", got[0], p)
	}
	b.want(1, []string{"describe", "nobody"}, "GROUP_ID_NOT_FOUND", "fix: see \"tidemark group list\"")
}

// TestRefusesAnActiveGroup: nothing moves or deletes offsets under members.
func TestRefusesAnActiveGroup(t *testing.T) {
	for _, kind := range []string{"classic", "consumer"} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t)
			opts := []kgo.Opt{kgo.Balancers(kgo.StickyBalancer())}
			if kind == "consumer" {
				opts = append(opts, kgo.ServerSideBalancer())
			}
			cl := b.member("busy", opts...)
			before := b.want(0, []string{"offsets", "busy"}, "orders")
			b.want(4, []string{"reset", "busy", "--topic", "orders", "--to", "start", "--execute"}, "group busy is in use: 1 member, state Stable", "fix: stop its members first")
			b.want(4, []string{"reset", "busy", "--topic", "orders", "--to", "start"}, "10 records read again", "is in use")
			b.want(4, []string{"delete", "busy", "--yes"}, "is in use")
			b.want(4, []string{"offsets", "busy", "--delete", "orders", "--yes"}, "reads orders now")
			if after := b.want(0, []string{"offsets", "busy"}); after != before {
				t.Errorf("offsets changed:\n%s%s", before, after)
			}
			cl.CloseAllowingRebalance()
			b.want(0, []string{"reset", "busy", "--topic", "orders", "--to", "start", "--execute"}, "moved 2 commits")
			b.want(0, []string{"offsets", "busy", "--delete", "orders:1", "--yes"}, "deleted 1 commit of group busy")
			b.want(0, []string{"delete", "busy", "--yes"}, "deleted busy")
		})
	}
}

func TestReset(t *testing.T) {
	b := newBench(t)
	b.member("g").CloseAllowingRebalance()
	at := func(code int, to string, parts ...string) {
		t.Helper()
		b.want(code, []string{"reset", "g", "--topic", "orders:0", "--to", to}, parts...)
	}
	at(0, "start", "orders          0      10      0  10 records read again", "nothing was changed")
	at(0, "end", "no change")
	at(0, "-3", "10      7  3 records read again")
	at(0, "+5", "no change (the log has 0 to 10)")
	at(0, "4", "6 records read again")
	at(0, "@1000010", "10      5  5 records read again")
	at(0, "2999-01-01", "no change")
	at(1, "noon", `--to is "noon": write start, end`)
	b.want(0, []string{"reset", "g", "--all-topics", "--to", "3", "--execute", "--format", "json"}, `"executed": true`, `"before": 10`, `"after": 3`)
	b.want(0, []string{"describe", "g"}, "orders          1          0          3         -       10            7")
	b.want(0, []string{"reset", "g", "--topic", "stock", "--to", "start"}, "stock          1       -      0  first commit")
	b.want(0, []string{"reset", "fresh", "--topic", "orders", "--to", "end"}, "there is no group fresh yet", "add --execute to make it")
	b.want(1, []string{"describe", "fresh", "g"}, "group g  ", "fresh: GROUP_ID_NOT_FOUND")
	b.want(0, []string{"reset", "fresh", "--topic", "orders", "--to", "end", "--execute"}, "first commit", "moved 2 commits")
	b.want(1, []string{"reset", "g", "--topic", "orders:x", "--to", "end"}, "is not a partition")
	b.want(1, []string{"reset", "g", "--topic", "nosuch", "--to", "end"}, "UNKNOWN_TOPIC_OR_PARTITION")
	b.want(1, []string{"reset", "g", "--to", "end"}, "say which topics")
	b.want(1, []string{"reset", "g", "--topic", "orders"}, "required flag")
	b.want(1, []string{"reset", "g", "--topic", "orders", "--to", "end", "--execute", "--dry-run"}, "none of the others")
	b.want(4, []string{"delete", "g"}, "needs a yes", "fix: add --yes")
}

// TestBeacon: the position column is what the consumer reported.
func TestBeacon(t *testing.T) {
	b := newBench(t)
	cl := b.member("g", kgo.Balancers(kgo.StickyBalancer()))
	meta := beacon.Encode(beacon.Beacon{AtMs: 1_700_000_000_000, Position: 9, Effect: 6, OldestOffset: -1}, beacon.DefaultLimit)
	cl.CloseAllowingRebalance()
	adm := (&app.App{Bootstrap: []string{b.broker}, Timeout: 10 * time.Second})
	a, err := adm.Admin(b.ctx())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.CommitAllOffsets(b.ctx(), "g", offsetsOf("orders", 0, 6, meta)); err != nil {
		t.Fatal(err)
	}
	b.want(0, []string{"describe", "g"}, "COMMITTED  EFFECT  POSITION  LOG END  UNCOMMITTED", "orders          0          0          6       6         9       10            4")
	b.want(0, []string{"offsets", "g"}, "tm1 at=")
}

func TestNotes(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	for _, tc := range []struct {
		committed, start, end int64
		want                  string
	}{{5, 8, 10, "3 records deleted before the group read them"}, {12, 0, 10, "committed beyond the log end"}, {5, 5, 10, ""}} {
		r := position{Topic: "t", Committed: n(tc.committed)}
		r.logs(&logbounds.Bounds{LogStart: listed1("t", tc.start), HighWatermark: listed1("t", tc.end)})
		if r.Problem != tc.want {
			t.Errorf("committed %d in [%d, %d): %q, want %q", tc.committed, tc.start, tc.end, r.Problem, tc.want)
		}
	}
}

func TestReconciliation(t *testing.T) {
	set := func(ps ...int32) kadm.TopicsSet {
		s := kadm.TopicsSet{}
		s.Add("t", ps...)
		return s
	}
	for _, tc := range []struct {
		has, shall kadm.TopicsSet
		epoch      int32
		want       string
	}{
		{set(0, 1), set(0, 1), 5, "stable"}, {set(0, 1), set(0), 4, "revoking 1"}, {set(0), set(0, 1, 2), 5, "waiting for 2"},
		{set(0), set(0), 4, "catching up"}, {set(0), set(0), -2, "away (static)"},
	} {
		if got := reconciliation(tc.has, tc.shall, tc.epoch, 5); got != tc.want {
			t.Errorf("has %v, shall have %v, epoch %d: %q, want %q", tc.has, tc.shall, tc.epoch, got, tc.want)
		}
	}
}
