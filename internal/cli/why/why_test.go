package why

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
	"github.com/tidemark-io/tidemark/internal/cli/lines"
	"github.com/tidemark-io/tidemark/internal/ops/boundary"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

// The commands lines and why are tested together: the same groups, on a fake
// cluster in process and on Tidemark.

type bench struct {
	t      *testing.T
	broker string
	adm    *kadm.Client
}

func TestFake(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	story(t, c.ListenAddrs()[0])
}

func TestTidemark(t *testing.T) { story(t, testkit.StartServer(t, "").Bootstrap()) }

func (b *bench) commit(group string, at int64, change func(*beacon.Beacon)) {
	b.t.Helper()
	text := ""
	if change != nil {
		bc := beacon.Beacon{AtMs: time.Now().UnixMilli(), OldestOffset: -1, Generation: 7}
		change(&bc)
		text = beacon.Encode(bc, beacon.DefaultLimit)
	}
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: "orders", At: at, LeaderEpoch: -1, Metadata: text})
	if err := b.adm.CommitAllOffsets(b.t.Context(), group, offsets); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) run(ctx context.Context, args string) (string, int) {
	var out bytes.Buffer
	a := &app.App{In: strings.NewReader(""), Out: &out, Err: &out}
	root := &cobra.Command{Use: "tidemark", SilenceUsage: true, SilenceErrors: true}
	a.Bind(root)
	root.AddCommand(Command(a), lines.Command(a))
	root.SetArgs(append([]string{"-b", b.broker}, strings.Fields(args)...))
	err := root.ExecuteContext(ctx)
	if err != nil {
		a.Report(err)
	}
	return out.String(), app.Code(err)
}

func (b *bench) want(code int, args string, parts ...string) string {
	b.t.Helper()
	out, got := b.run(b.t.Context(), args)
	if got != code {
		b.t.Errorf("%s: code %d, want %d\n%s", args, got, code, out)
	}
	for _, p := range parts {
		if !strings.Contains(out, p) {
			b.t.Errorf("%s lacks %q\n%s", args, p, out)
		}
	}
	if strings.Contains(strings.ToLower(out), "lag") {
		b.t.Errorf("%s calls something lag\n%s", args, out)
	}
	return out
}

func story(t *testing.T, broker string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	b := &bench{t, broker, kadm.NewClient(cl)}
	if _, err := b.adm.CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	b.want(0, "lines --once", "no group has committed")
	b.want(1, "lines nobody --once", "no commits and no members")
	b.want(1, "lines --interval 1ms", "--interval")
	for i := range 200 {
		key := []byte{'k', byte('a' + i%26)}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Key: key, Timestamp: time.Now().Add(-2 * time.Hour)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("Verdicts", func(t *testing.T) { (&bench{t, broker, b.adm}).verdicts() })
	t.Run("Why", func(t *testing.T) { (&bench{t, broker, b.adm}).why() })
	t.Run("Live", func(t *testing.T) { (&bench{t, broker, b.adm}).live() })
}

func (b *bench) verdicts() {
	b.commit("unread", 180, func(c *beacon.Beacon) { c.Position, c.Effect = 180, 180 })
	b.want(0, "lines unread --once", "orders/0", "20 (2h0m)", "UNREAD 20")
	b.commit("ahead", 180, func(c *beacon.Beacon) { c.Position, c.Effect = 200, 175 })
	b.want(2, "lines ahead --once", "COMMIT-AHEAD 5, EFFECT-BEHIND 25", "tidemark why")
	b.commit("foreign", 200, nil)
	b.want(3, "lines foreign --once", "UNKNOWN")
	// One finding among all groups decides before what is unknown.
	b.want(2, "lines --once", "group ahead", "group foreign", "group unread")
	b.want(2, "lines --once --topic orders", "orders/0")
	out := b.want(3, "lines foreign --once --format json", `"position": null`, `"text": "UNKNOWN"`)
	var parsed struct{ Groups []lines.View }
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&parsed); err != nil {
		b.t.Fatal(err)
	}
	if l := parsed.Groups[0].Lines[0]; l.Verdict.String() != "UNKNOWN" || l.Position.Present() || l.Committed != boundary.At(200) {
		b.t.Errorf("read back: %+v", l)
	}
	b.commit("effects", 180, nil)
	b.want(1, "lines effects --once --effects ftp://x", "--effects")
	b.want(3, "lines effects --once --effects nowhere.ndjson", "UNKNOWN")
}

func (b *bench) why() {
	b.commit("stuck", 175, func(c *beacon.Beacon) {
		c.Position, c.Effect, c.OldestOffset, c.OldestAgeMs = 200, 175, 175, 95_000
		c.Queued, c.RetryWait, c.Attempts, c.LastError = 24, 1, 9, "dial tcp: connection refused"
	})
	b.want(0, "why stuck orders/0", "STALLED at 175 (1m35s), EFFECT-BEHIND 25", "held by offset 175", `key "kt"`, "(2h0m ago)",
		"failed attempts: 9", "24 queued, 1 waiting to retry", "last error: dial tcp: connection refused", "failed 9 times")
	b.want(0, "why ahead orders/0", "held by offset 175 (effect)", "offsets 175 to 179 are committed and not known to be done", "tidemark group reset ahead --topic orders:0 --to 175")
	b.want(0, "why unread orders/0", "held by offset 180 (position)", "reads on by itself")
	b.want(0, "why foreign orders/0", "not known: the commits carry no beacon")
	b.want(0, "why stuck orders/0 --format json", `"offset": 175`, `"what": "in flight"`, `"moves"`)
	b.commit("idle", 200, func(c *beacon.Beacon) { c.Position, c.Effect = 200, 200 })
	b.want(0, "why idle orders/0", "IDLE", "nothing has to move")
	member, err := kgo.NewClient(kgo.SeedBrokers(b.broker), kgo.ConsumerGroup("nocommit"), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit())
	if err != nil {
		b.t.Fatal(err)
	}
	defer member.Close()
	if errs := member.PollRecords(b.t.Context(), 1).Errors(); len(errs) > 0 {
		b.t.Fatal(errs)
	}
	b.want(0, "why nocommit orders/0", "committed none", "what moves it: not known: the group has not committed in this partition")
	b.want(1, "why idle orders/9", "no line for orders/9")
	b.want(1, "why idle orders", "TOPIC/PARTITION")
	b.want(1, "why nobody orders/0", "no commits and no members")
}

// live: the table comes again and again until somebody ends it.
func (b *bench) live() {
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	pipe := &counter{want: 2, full: cancel}
	a := &app.App{In: strings.NewReader(""), Out: pipe, Err: pipe}
	root := &cobra.Command{Use: "tidemark", SilenceUsage: true, SilenceErrors: true}
	a.Bind(root)
	root.AddCommand(lines.Command(a))
	root.SetArgs([]string{"-b", b.broker, "lines", "unread", "--interval", "100ms"})
	_ = root.ExecuteContext(ctx)
	if pipe.seen < 2 {
		b.t.Errorf("the table came %d times", pipe.seen)
	}
}

// counter calls full when the verdict was printed often enough.
type counter struct {
	seen, want int
	full       func()
}

func (c *counter) Write(p []byte) (int, error) {
	if c.seen += strings.Count(string(p), "UNREAD 20"); c.seen >= c.want {
		c.full()
	}
	return len(p), nil
}
