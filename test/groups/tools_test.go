package groups

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// TestGroupTools takes the same groups through the same life on Tidemark and on
// Apache Kafka, and compares what Apache Kafka's own group tools print. Both
// sides run at the same time; a JVM starts for each line.
func TestGroupTools(t *testing.T) {
	t.Parallel()
	testkit.NeedJava(t)
	var peers []peer
	server, td := startTidemark(t)
	peers = append(peers, td, startKafka(t))
	b := &toolbox{t: t, peers: peers}
	b.each(func(p peer) { prepare(t, p) })
	t.Run("read in groups", b.read)
	t.Run("active groups", b.active)
	t.Run("empty groups", b.empty)
	t.Run("perf test", b.perf)
	server.Stop() // so that every file is whole on disk
	t.Run("decode", func(t *testing.T) { decode(t, server.Dir) })
}

// decode has Apache Kafka's decoder read every record of our __consumer_offsets,
// and wants those of both protocols among them.
func decode(t *testing.T, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "__consumer_offsets-*", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", testkit.PeerScript(), "run", "dump-log", "--offsets-decoder", "--files", strings.Join(files, ","))
	cmd.Env = append(os.Environ(), "KAFKA_TOOL_OPTS="+testkit.ToolOpts)
	raw, err := cmd.CombinedOutput()
	out := string(raw)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	read := map[string]int{}
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "| offset:") {
			continue
		}
		m := decoded.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not decoded: %s", line)
			continue
		}
		read[m[1]]++
	}
	// An offset; the classic group; KIP-848: epoch, member, target epoch, target, current.
	for _, kind := range []string{"1", "2", "3", "5", "6", "7", "8"} {
		if read[kind] == 0 {
			t.Errorf("no record of type %s among %v", kind, read)
		}
	}
}

// decoded is a record as the decoder prints it: a key with its type, and a value
// with its version or none.
var decoded = regexp.MustCompile(`key: \{"type":"(\d+)","data":\{.*\} payload: (?:\{"version":"\d+","data":\{|<DELETE>)`)

type toolbox struct {
	t     *testing.T
	peers []peer
}

func (b *toolbox) each(do func(peer)) {
	var wg sync.WaitGroup
	for _, p := range b.peers {
		wg.Go(func() { do(p) })
	}
	wg.Wait()
}

// tool runs one of Apache Kafka's tools. Its exit status is part of the answer.
func tool(p peer, name string, args ...string) string {
	argv := append([]string{testkit.PeerScript(), "run", name, "--bootstrap-server", p.bootstrap}, args...)
	cmd := exec.Command("bash", argv...)
	cmd.Env = append(os.Environ(), "KAFKA_TOOL_OPTS="+testkit.ToolOpts)
	out, err := cmd.CombinedOutput()
	if err != nil {
		out = fmt.Appendf(out, "\n%v\n", err)
	}
	return string(out)
}

var (
	memberID  = regexp.MustCompile(`(reader-[a-z0-9-]*|consumer-[a-z]+-\d+)-[0-9a-f]{8}-[0-9a-f-]{27}`)
	base64ID  = regexp.MustCompile(`\b[A-Za-z0-9_-]{22,24}\b(==)?`)
	hexUUID   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	localPort = regexp.MustCompile(`(127\.0\.0\.1|localhost)(:|\s+)\d+`)
	spaces    = regexp.MustCompile(`[ \t]+`)
	newTime   = regexp.MustCompile(`\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}[.,:]\d{3}`)
)

// scrub removes what must differ between two clusters: ids and ports, and the
// column widths that follow from them.
func scrub(out string) string {
	out = memberID.ReplaceAllString(out, "$1-ID")
	out = hexUUID.ReplaceAllString(out, "ID")
	out = base64ID.ReplaceAllStringFunc(out, func(s string) string {
		if strings.HasSuffix(s, "Exception") {
			return s
		}
		return "ID"
	})
	out = newTime.ReplaceAllString(out, "TIME")
	out = localPort.ReplaceAllString(out, "HOST:PORT")
	var lines []string
	for line := range strings.Lines(out) {
		lines = append(lines, strings.TrimSpace(spaces.ReplaceAllString(line, " ")))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// sorted is for tables whose order hangs on random ids.
func sorted(out string) string {
	lines := strings.Split(scrub(out), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// same runs a tool on both and wants the same answer, with want in it.
func (b *toolbox) same(t *testing.T, want, name string, args ...string) {
	t.Helper()
	b.sameAfter(t, scrub, want, name, args...)
}

func (b *toolbox) sameAfter(t *testing.T, clean func(string) string, want, name string, args ...string) {
	t.Helper()
	outs := make([]string, len(b.peers))
	var wg sync.WaitGroup
	for i, p := range b.peers {
		wg.Go(func() { outs[i] = clean(tool(p, name, args...)) })
	}
	wg.Wait()
	if outs[0] != outs[1] {
		t.Errorf("%s %s differs\n--- %s\n%s\n--- %s\n%s", name, strings.Join(args, " "), b.peers[0].name, outs[0], b.peers[1].name, outs[1])
	}
	if !strings.Contains(outs[1], want) {
		t.Errorf("%s %s on %s lacks %q:\n%s", name, strings.Join(args, " "), b.peers[1].name, want, outs[1])
	}
}

const toolTopic = "tools"

// prepare writes 60 records in three partitions with given timestamps.
func prepare(t *testing.T, p peer) {
	forever := "-1" // the records are years old
	if _, err := admin(t, p).CreateTopic(deadline(t), 3, 1, map[string]*string{"retention.ms": &forever}, toolTopic); err != nil {
		t.Error(err)
	}
	cl := client(t, p, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(toolTopic))
	for i := range 60 {
		r := &kgo.Record{Partition: int32(i % 3), Value: fmt.Appendf(nil, "value %d", i), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)*1000)}
		cl.Produce(deadline(t), r, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := cl.Flush(deadline(t)); err != nil {
		t.Error(err)
	}
}

// read: the console consumer in groups of both protocols.
func (b *toolbox) read(t *testing.T) {
	for _, protocol := range []string{"classic", "consumer"} {
		b.same(t, "Processed a total of 60 messages", "console-consumer", "--topic", toolTopic, "--group", "console-"+protocol, "--from-beginning",
			"--max-messages", "60", "--timeout-ms", "30000", "--formatter-property", "print.value=false",
			"--command-property", "group.protocol="+protocol)
	}
}

// hold keeps two members in a group of each protocol, one of them static, with
// everything read and committed.
func hold(t *testing.T, p peer) {
	for _, protocol := range []string{"eager", "consumer"} {
		group := "held-" + protocol
		if protocol == "consumer" { // a member that is expelled comes back in another epoch, which the tools show
			groupSession(t, p, group, staticSession)
		}
		first := reader(t, p, protocol, group, kgo.ClientID("reader-a"), kgo.InstanceID("static-a"))
		readAll(t, first, 60)
		second := reader(t, p, protocol, group, kgo.ClientID("reader-b"))
		adm, ctx := admin(t, p), deadline(t)
		wait(t, p.name+": two members in "+group, func() bool {
			return settled(ctx, adm, protocol, group, 2, 3)
		})
		_ = second
	}
}

func reader(t *testing.T, p peer, protocol, group string, opts ...kgo.Opt) *kgo.Client {
	return client(t, p, append(append(balance(protocol),
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(toolTopic), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(200*time.Millisecond), kgo.SessionTimeout(staticSession), kgo.FetchMaxWait(100*time.Millisecond)), opts...)...)
}

func readAll(t *testing.T, cl *kgo.Client, n int) {
	t.Helper()
	for got := 0; got < n; {
		f := cl.PollFetches(deadline(t))
		if err := f.Err(); err != nil {
			t.Error(err)
			return
		}
		got += f.NumRecords()
	}
	if err := cl.CommitUncommittedOffsets(deadline(t)); err != nil {
		t.Error(err)
	}
}

// active: groups with members, in both protocols, in every view.
func (b *toolbox) active(t *testing.T) {
	b.each(func(p peer) { hold(t, p) })
	for _, protocol := range []string{"eager", "consumer"} {
		group := []string{"--group", "held-" + protocol}
		b.same(t, "LOG-END-OFFSET", "consumer-groups", append(group, "--describe", "--offsets", "--verbose")...)
		b.sameAfter(t, sorted, "static-a", "consumer-groups", append(group, "--describe", "--members", "--verbose")...)
		b.same(t, "Stable", "consumer-groups", append(group, "--describe", "--state", "--verbose")...)
		b.same(t, "Assignments can only be reset if the group", "consumer-groups", append(group, "--reset-offsets", "--topic", toolTopic, "--to-earliest", "--execute")...)
		b.same(t, "GroupNotEmptyException", "consumer-groups", append(group, "--delete")...)
		b.same(t, "GroupSubscribedToTopicException", "consumer-groups", append(group, "--delete-offsets", "--topic", toolTopic)...)
	}
	b.same(t, "held-consumer", "groups", "--list")
	b.same(t, "held-eager", "consumer-groups", "--list", "--state", "--type")
}

// empty: what may be done to groups without members.
func (b *toolbox) empty(t *testing.T) {
	group := []string{"--group", "console-classic", "--group", "console-consumer"}
	b.same(t, "has no active members", "consumer-groups", append(group, "--describe")...)
	b.same(t, "Empty", "consumer-groups", append(group, "--describe", "--state")...)
	b.same(t, "NEW-OFFSET", "consumer-groups", append(group, "--reset-offsets", "--all-topics", "--shift-by", "-5", "--dry-run")...)
	b.same(t, "NEW-OFFSET", "consumer-groups", append(group, "--reset-offsets", "--topic", toolTopic+":0,2", "--to-datetime", "2023-11-14T22:13:50.000", "--execute")...)
	b.same(t, "CURRENT-OFFSET", "consumer-groups", append(group, "--describe", "--offsets")...)
	b.same(t, "Successful", "consumer-groups", "--group", "console-classic", "--delete-offsets", "--topic", toolTopic+":1")
	b.same(t, "Deletion of requested consumer groups", "consumer-groups", append(group, "--delete")...)
	b.same(t, "GroupIdNotFoundException", "consumer-groups", "--group", "console-classic", "--delete")
	b.same(t, "not found", "consumer-groups", "--group", "console-classic", "--describe")
}

// perf: the consumer's benchmark reads everything in both protocols.
func (b *toolbox) perf(t *testing.T) {
	for _, protocol := range []string{"classic", "consumer"} {
		out := tool(b.peers[0], "consumer-perf-test", "--topic", toolTopic, "--num-records", "60", "--group", "perf-"+protocol,
			"--timeout", "30000", "--command-property", "group.protocol="+protocol)
		if !regexp.MustCompile(`, 60, `).MatchString(out) {
			t.Errorf("perf test in %s:\n%s", protocol, out)
		}
	}
}
