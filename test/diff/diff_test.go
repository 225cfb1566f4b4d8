package diff

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

var (
	// The gate plays the same sequences every time, so that it says something about
	// the change and not about the day; look for new ones with -seed 0.
	seedFlag      = flag.Uint64("seed", 1, "first seed; 0 takes one from the clock")
	sequencesFlag = flag.Int("sequences", 25, "sequences to play at the most")
	budgetFlag    = flag.Duration("budget", 60*time.Second, "how long new sequences are begun")
	stepsFlag     = flag.Int("steps", 40, "random steps in a sequence")
	showFlag      = flag.Int("show", 10, "differences to show before giving up")
)

// both is the pair of brokers.
type both struct {
	ours, kafka *side
	runs        int
	unique      string
}

// TestAgainstKafka sends random sequences to both brokers until its budget is
// used up. A difference fails the test with the fewest requests that show it.
func TestAgainstKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("comparison with Apache Kafka left out: -short")
	}
	b := start(t)
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	t.Logf("first seed %d: go test ./test/diff -seed %d", seed, seed)
	steps, seqs, found := 0, 0, map[string]bool{}
	for end := time.Now().Add(*budgetFlag); seqs < *sequencesFlag && time.Now().Before(end) && len(found) < *showFlag; seed++ {
		seq := sequence(seed, *stepsFlag)
		for _, d := range b.play(seq, found) {
			found[d.kind] = true
			t.Errorf("seed %d: %s", seed, b.shrink(seq, d))
		}
		steps += len(seq)
		seqs++
	}
	t.Logf("%d sequences, %d requests to each broker", seqs, steps)
}

// start starts both brokers, or takes running ones from the environment.
func start(t *testing.T) *both {
	ours, kafka := os.Getenv("TESTKIT_TIDEMARK"), os.Getenv("TESTKIT_KAFKA")
	props := []string{"group.initial.rebalance.delay.ms=0", "num.partitions=3", "auto.create.topics.enable=false"}
	if kafka == "" {
		kafka = testkit.StartKafka(t, props...).Bootstrap()
	}
	if ours == "" {
		var args []string
		for _, p := range props {
			args = append(args, "--set", p)
		}
		ours = testkit.StartServer(t, "", args...).Bootstrap()
	}
	b := &both{ours: newSide(t, "tidemark", ours), kafka: newSide(t, "kafka", kafka), unique: fmt.Sprintf("%x", time.Now().Unix()%0xffffff)}
	for _, s := range []*side{b.ours, b.kafka} {
		s.warm()
	}
	return b
}

// warm waits until a broker gives out producer ids and coordinates groups.
func (s *side) warm() {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		pid := kmsg.NewPtrInitProducerIDRequest()
		pid.Version, pid.ProducerID, pid.ProducerEpoch = 4, -1, -1
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorKey = 3, "warm"
		if p, ok := s.do(pid).(*kmsg.InitProducerIDResponse); !ok || p.ErrorCode != 0 {
			continue
		}
		if f, ok := s.do(find).(*kmsg.FindCoordinatorResponse); !ok || f.ErrorCode != 0 {
			continue
		}
		if s.groupsLoaded() {
			return
		}
	}
	s.t.Fatalf("%s does not coordinate groups", s.name)
}

func (s *side) groupsLoaded() bool {
	for i := range 200 { // names enough for every partition of __consumer_offsets
		of := kmsg.NewPtrOffsetFetchRequest()
		of.Version, of.Group = 7, fmt.Sprintf("warm%d", i)
		if r, ok := s.do(of).(*kmsg.OffsetFetchResponse); !ok || r.ErrorCode != 0 {
			return false
		}
	}
	return true
}

// difference is one step that the brokers answered differently.
type difference struct {
	at          int
	kind        string
	what        string
	request     []string
	ours, kafka []string
	readOnly    bool
}

// play sends a sequence to both brokers under fresh names and returns the first
// difference that is not in known; what follows one may follow from it.
func (b *both) play(seq []step, known map[string]bool) []difference {
	b.runs++
	run := fmt.Sprintf("%s%d-", b.unique, b.runs)
	b.ours.begin(run)
	b.kafka.begin(run)
	for i, st := range seq {
		d := b.step(i, st)
		if d == nil {
			continue
		}
		if known[d.kind] && d.readOnly {
			continue
		}
		if known[d.kind] {
			return nil
		}
		return []difference{*d}
	}
	return nil
}

func (b *both) step(i int, st step) *difference {
	for try := 0; ; try++ {
		reqOurs, reqKafka := st.build(b.ours), st.build(b.kafka)
		request := b.ours.show(reqOurs)
		respKafka := b.kafka.answer(reqKafka)
		respOurs := b.ours.answer(reqOurs)
		ours, kafka := b.ours.show(respOurs), b.kafka.show(respKafka)
		if slices.Equal(ours, kafka) || b.isIntended(reqOurs, ours, kafka) {
			b.settleConfigs(reqOurs, reqKafka)
			return nil
		}
		if try < 200 && readOnly(reqOurs) {
			time.Sleep(10 * time.Millisecond) // the other broker may not have applied a change yet
			continue
		}
		only, theirs := minus(ours, kafka), minus(kafka, ours)
		return &difference{at: i, kind: kindOf(st.what, only, theirs), what: st.what, request: request, ours: only, kafka: theirs, readOnly: readOnly(reqOurs)}
	}
}

// answer sends a request, remembers the ids of the answer and waits until the
// broker acts on what it changed.
func (s *side) answer(req kmsg.Request) kmsg.Response {
	resp := s.do(req)
	if resp == nil {
		return nil
	}
	s.note(resp)
	if err := s.follow(req, resp); err != nil {
		s.t.Error(err)
	}
	s.tidy(req, resp)
	return resp
}

func (s *side) follow(req kmsg.Request, resp kmsg.Response) error {
	short := func(full string) string { return "=" + full }
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		c := req.(*kmsg.CreateTopicsRequest)
		for i, t := range r.Topics {
			if t.ErrorCode != 0 || c.ValidateOnly {
				continue
			}
			n := int32(3)
			for _, q := range c.Topics {
				if q.Topic == t.Topic {
					if n = q.NumPartitions; len(q.ReplicaAssignment) > 0 {
						n = int32(len(q.ReplicaAssignment))
					} else if n == -1 {
						n = 3
					}
				}
			}
			if err := s.settle(short(r.Topics[i].Topic), int(n)); err != nil {
				return err
			}
		}
	case *kmsg.DeleteTopicsResponse:
		for _, t := range r.Topics {
			if t.ErrorCode == 0 && t.Topic != nil {
				if err := s.settle(short(*t.Topic), 0); err != nil {
					return err
				}
			}
		}
	case *kmsg.CreatePartitionsResponse:
		c := req.(*kmsg.CreatePartitionsRequest)
		for _, t := range r.Topics {
			for _, q := range c.Topics {
				if t.ErrorCode == 0 && q.Topic == t.Topic && !c.ValidateOnly {
					if err := s.settle(short(t.Topic), int(q.Count)); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// settleConfigs waits until both brokers show the same settings after a change:
// Kafka answers when the controller has it, before the broker acts on it.
func (b *both) settleConfigs(ours, kafka kmsg.Request) {
	var names []string
	switch r := ours.(type) {
	case *kmsg.IncrementalAlterConfigsRequest:
		for _, res := range r.Resources {
			names = append(names, res.ResourceName)
		}
	case *kmsg.AlterConfigsRequest:
		for _, res := range r.Resources {
			names = append(names, res.ResourceName)
		}
	}
	for _, name := range names {
		if !strings.HasPrefix(name, b.ours.run) {
			continue
		}
		for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			req := kmsg.NewPtrDescribeConfigsRequest()
			req.Version = 1
			res := kmsg.NewDescribeConfigsRequestResource()
			res.ResourceType, res.ResourceName = 2, name
			req.Resources = append(req.Resources, res)
			if slices.Equal(b.ours.show(b.ours.answer(req)), b.kafka.show(b.kafka.answer(req))) {
				break
			}
		}
	}
	if len(names) > 0 {
		time.Sleep(10 * time.Millisecond) // settings are shown a moment before the logs have them
	}
}

func readOnly(req kmsg.Request) bool {
	switch r := req.(type) {
	case *kmsg.FetchRequest:
		return r.SessionEpoch == -1 && r.SessionID == 0
	case *kmsg.ListOffsetsRequest, *kmsg.MetadataRequest, *kmsg.DescribeConfigsRequest, *kmsg.ListConfigResourcesRequest, *kmsg.OffsetForLeaderEpochRequest,
		*kmsg.OffsetFetchRequest, *kmsg.FindCoordinatorRequest, *kmsg.DescribeLogDirsRequest, *kmsg.DescribeProducersRequest,
		*kmsg.DescribeTopicPartitionsRequest, *kmsg.DescribeClusterRequest, *kmsg.DescribeQuorumRequest, *kmsg.ListPartitionReassignmentsRequest,
		*kmsg.DescribeGroupsRequest, *kmsg.UpdateFeaturesRequest:
		return true
	}
	return false
}

func (b *both) isIntended(req kmsg.Request, ours, kafka []string) bool {
	o, k := strings.Join(minus(ours, kafka), "\n"), strings.Join(minus(kafka, ours), "\n")
	for _, in := range intended {
		if in.match(req, o, k) {
			return true
		}
	}
	return false
}

// minus returns the lines of a that b lacks.
func minus(a, b []string) []string {
	var out []string
	for _, l := range a {
		if !slices.Contains(b, l) {
			out = append(out, l)
		}
	}
	return out
}

// kindOf names a difference so that the same one is shown once.
func kindOf(what string, ours, kafka []string) string {
	api, _, _ := strings.Cut(what, " ")
	digits := strings.NewReplacer("0", "", "1", "", "2", "", "3", "", "4", "", "5", "", "6", "", "7", "", "8", "", "9", "")
	first := func(l []string) string {
		if len(l) == 0 {
			return ""
		}
		i := strings.Index(l[0], "=")
		if strings.Contains(l[0][:i+1], "ErrorCode") {
			return l[0]
		}
		return l[0][:i+1]
	}
	return api + digits.Replace(first(ours)) + first(ours) + "/" + first(kafka)
}

// shrink drops steps that the difference does not need, and describes what is
// left.
func (b *both) shrink(seq []step, d difference) string {
	seq = slices.Clone(seq[:d.at+1])
	for chunk := max(1, len(seq)/2); chunk >= 1; chunk /= 2 {
		for i := 0; i+chunk < len(seq); {
			shorter := slices.Delete(slices.Clone(seq), i, i+chunk)
			if ds := b.play(shorter, nil); len(ds) == 1 && ds[0].kind == d.kind && ds[0].at == len(shorter)-1 {
				seq, d = shorter, ds[0]
			} else {
				i += chunk
			}
		}
	}
	b.runs++
	run := fmt.Sprintf("%s%d-", b.unique, b.runs)
	b.ours.begin(run)
	b.kafka.begin(run)
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n", d.what)
	for _, st := range seq[:len(seq)-1] {
		fmt.Fprintf(&out, "  after %s\n", st.what)
		if !strings.HasPrefix(st.what, "InitProducerID") {
			fmt.Fprintf(&out, "    %s\n", strings.Join(short(b.ours.show(st.build(b.ours))), "\n    "))
		}
		b.step(0, st)
	}
	fmt.Fprintf(&out, "  request\n    %s\n", strings.Join(short(d.request), "\n    "))
	fmt.Fprintf(&out, "  tidemark\n    %s\n", strings.Join(short(d.ours), "\n    "))
	fmt.Fprintf(&out, "  kafka\n    %s\n", strings.Join(short(d.kafka), "\n    "))
	return out.String()
}

// short cuts long values and long lists.
func short(lines []string) []string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		if len(l) > 300 {
			l = l[:300] + "..."
		}
		out = append(out, l)
		if len(out) == 40 {
			return append(out, "...")
		}
	}
	return out
}
