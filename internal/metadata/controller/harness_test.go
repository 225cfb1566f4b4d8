package controller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// id makes a UUID from a short name, so that scripts stay readable.
func id(name string) types.UUID {
	switch name {
	case "unassigned":
		return types.UnassignedDir
	case "migrating":
		return types.ZeroUUID
	case "lost":
		return types.LostDir
	}
	var u types.UUID
	copy(u[:], name)
	return u
}

func idName(u types.UUID) string {
	switch u {
	case types.UnassignedDir:
		return "unassigned"
	case types.ZeroUUID:
		return "migrating"
	case types.LostDir:
		return "lost"
	}
	return strings.TrimRight(string(u[:]), "\x00")
}

// testSchema knows a few keys.
type testSchema struct{}

func (testSchema) Validate(r image.Resource, _, proposed map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(proposed)) {
		switch k {
		case configMinISR:
			if n, err := strconv.Atoi(proposed[k]); err != nil || n < 1 {
				return fmt.Errorf("Invalid value %s for configuration %s: Value must be at least 1", proposed[k], k)
			}
		case configUncleanElection, "cleanup.policy", "retention.ms", "log.retention.ms", "max.connections":
		default:
			return kerrors.New(kerrors.InvalidConfig, "Unknown %s config name: %s", strings.ToLower(r.Type.String()), k)
		}
	}
	return nil
}

func (testSchema) List(_ image.ResourceType, key string) bool { return key == "cleanup.policy" }

func (testSchema) Default(_ image.ResourceType, key string) string {
	return map[string]string{configMinISR: "1", configUncleanElection: "false", "cleanup.policy": "delete"}[key]
}

// world is a core, the log it wrote, and a follower that replays the same log.
type world struct {
	core  *Core
	opts  Options
	delta *image.State // what a broker would see
	log   []recordschema.MetadataRecord
	nowMs int64
	ids   int
}

func newWorld(opts Options, elr bool) *world {
	w := &world{opts: opts, delta: image.NewState(image.Empty()), nowMs: 0}
	w.core = New(image.Empty(), opts, 0)
	features := DefaultFeatures()
	if !elr {
		features[image.FeatureEligibleLeaderReplicas] = 0
	}
	if err := w.append(BootstrapRecords(BootstrapInput{Features: features})); err != nil {
		panic(err)
	}
	return w
}

func (w *world) next() int64 { return int64(len(w.log)) }

// append does what the shell does: encode, append, replay at once. Records go
// through their bytes, so nothing depends on what the encoding drops.
func (w *world) append(records []recordschema.MetadataRecord) error {
	for _, r := range records {
		parsed, err := recordschema.ParseFrame(recordschema.AppendFrame(nil, r))
		if err != nil {
			return err
		}
		if err := w.core.Replay(parsed, w.next()); err != nil {
			return fmt.Errorf("core: %w", err)
		}
		if err := w.delta.Replay(parsed); err != nil {
			return fmt.Errorf("follower: %w", err)
		}
		w.log = append(w.log, parsed)
	}
	return nil
}

func (w *world) newID() types.UUID { w.ids++; return id("t" + strconv.Itoa(w.ids)) }

func dumpImage(im *image.Image) string {
	var b strings.Builder
	image.WriteRecords(im, func(r recordschema.MetadataRecord) bool {
		fmt.Fprintf(&b, "%s\n", formatRecord(r))
		return true
	})
	return b.String()
}

func list[T any](in []T, f func(T) string) string {
	if in == nil {
		return "null"
	}
	var out []string
	for _, v := range in {
		out = append(out, f(v))
	}
	return "[" + strings.Join(out, " ") + "]"
}

func ints(in []int32) string       { return list(in, func(v int32) string { return strconv.Itoa(int(v)) }) }
func uuids(in []types.UUID) string { return list(in, idName) }
func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func formatRecord(rec recordschema.MetadataRecord) string {
	switch r := rec.(type) {
	case *recordschema.TopicRecord:
		return fmt.Sprintf("Topic %s id=%s", r.Name, idName(r.TopicID))
	case *recordschema.PartitionRecord:
		s := fmt.Sprintf("Partition %s-%d replicas=%s isr=%s leader=%d leaderEpoch=%d partitionEpoch=%d dirs=%s",
			idName(r.TopicID), r.PartitionID, ints(r.Replicas), ints(r.ISR), r.Leader, r.LeaderEpoch, r.PartitionEpoch, uuids(r.Directories))
		if r.GrownTimeMs != 0 {
			s += fmt.Sprintf(" grown at %d ms", r.GrownTimeMs)
		}
		return s + partitionExtras(r.AddingReplicas, r.RemovingReplicas, r.EligibleLeaderReplicas, r.LastKnownElr, r.LeaderRecoveryState, 0, false)
	case *recordschema.PartitionChangeRecord:
		return formatChange(r)
	case *recordschema.ConfigRecord:
		return fmt.Sprintf("Config %s/%q %s=%s", image.ResourceType(r.ResourceType), r.ResourceName, r.Name, orNull(r.Value))
	case *recordschema.RemoveTopicRecord:
		return "RemoveTopic " + idName(r.TopicID)
	case *recordschema.FeatureLevelRecord:
		return fmt.Sprintf("FeatureLevel %s=%d", r.Name, r.FeatureLevel)
	case *recordschema.RegisterBrokerRecord:
		return fmt.Sprintf("RegisterBroker %d epoch=%d incarnation=%s rack=%s fenced=%v shutdown=%v dirs=%s cordoned=%s",
			r.BrokerID, r.BrokerEpoch, idName(r.IncarnationID), orNull(r.Rack), r.Fenced, r.InControlledShutdown, uuids(r.LogDirs), uuids(r.CordonedLogDirs))
	case *recordschema.BrokerRegistrationChangeRecord:
		return fmt.Sprintf("BrokerRegistrationChange %d v%d epoch=%d fenced=%d shutdown=%d dirs=%s cordoned=%s",
			r.BrokerID, r.Version(), r.BrokerEpoch, r.Fenced, r.InControlledShutdown, uuids(r.LogDirs), uuids(r.CordonedLogDirs))
	case *recordschema.UnregisterBrokerRecord:
		return fmt.Sprintf("UnregisterBroker %d epoch=%d", r.BrokerID, r.BrokerEpoch)
	case *recordschema.ProducerIdsRecord:
		return fmt.Sprintf("ProducerIds broker=%d epoch=%d next=%d", r.BrokerID, r.BrokerEpoch, r.NextProducerID)
	case *recordschema.ClearElrRecord:
		return fmt.Sprintf("ClearElr %q", r.TopicName)
	case *recordschema.RegisterControllerRecord:
		return fmt.Sprintf("RegisterController %d", r.ControllerID)
	}
	return recordschema.Name(rec)
}

func partitionExtras(adding, removing, elr, last []int32, recovery, unchanged int8, showEmpty bool) string {
	s := ""
	add := func(name string, v []int32) {
		if len(v) > 0 || v != nil && showEmpty {
			s += " " + name + "=" + ints(v)
		}
	}
	add("adding", adding)
	add("removing", removing)
	add("elr", elr)
	add("lastKnownElr", last)
	if recovery != unchanged {
		s += fmt.Sprintf(" recovery=%d", recovery)
	}
	return s
}

func formatChange(r *recordschema.PartitionChangeRecord) string {
	s := fmt.Sprintf("PartitionChange %s-%d", idName(r.TopicID), r.PartitionID)
	if r.Leader != recordschema.LeaderUnchanged {
		s += fmt.Sprintf(" leader=%d", r.Leader)
	}
	if r.ISR != nil {
		s += " isr=" + ints(r.ISR)
	}
	if r.Replicas != nil {
		s += " replicas=" + ints(r.Replicas)
	}
	if r.Directories != nil {
		s += " dirs=" + uuids(r.Directories)
	}
	return s + partitionExtras(r.AddingReplicas, r.RemovingReplicas, r.EligibleLeaderReplicas, r.LastKnownElr,
		r.LeaderRecoveryState, recordschema.RecoveryStateUnchanged, true)
}

// codeLine is an error as a script shows it.
func codeLine(code int16, message *string) string {
	s := kerrors.Code(code).Name()
	if code == 0 {
		s = "NONE"
	}
	if message != nil {
		s += ": " + *message
	}
	return s
}

// args reads a command's key=value arguments.
type args struct{ d *datadriven.TestData }

func (a args) str(key, def string) string {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key {
			return strings.Join(arg.Vals, ",")
		}
	}
	return def
}

func (a args) has(key string) bool { return a.d.HasArg(key) }

func (a args) int(key string, def int64) int64 {
	s := a.str(key, "")
	if s == "" {
		return def
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: %s=%q: %v", a.d.Pos, key, s, err))
	}
	return n
}

func (a args) names(key string) []types.UUID {
	s := a.str(key, "")
	if s == "" {
		return nil
	}
	var out []types.UUID
	for _, n := range strings.Split(s, ",") {
		out = append(out, id(n))
	}
	return out
}

func parseInts(s string) []int32 {
	var out []int32
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == '/' }) {
		n, err := strconv.Atoi(f)
		if err != nil {
			panic(err)
		}
		out = append(out, int32(n))
	}
	return out
}

func raw(in []types.UUID) [][16]byte {
	var out [][16]byte
	for _, u := range in {
		out = append(out, u)
	}
	return out
}

// TestScripts runs the scripts of testdata, one file a subject.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var w *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			a := args{d}
			if d.Cmd == "new" {
				w = newWorld(Options{
					NodeID: 100, ClusterID: "cluster", Configs: testSchema{},
					DefaultReplicationFactor: int16(a.int("rf", 1)), DefaultNumPartitions: int32(a.int("partitions", 1)),
				}, a.str("elr", "on") == "on")
				return ""
			}
			var b strings.Builder
			records := w.run(a, &b)
			if err := w.append(records); err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			for _, r := range records {
				fmt.Fprintf(&b, "  %s\n", formatRecord(r))
			}
			if got, want := dumpImage(w.core.Image()), dumpImage(w.delta.Image(w.next()-1, 1)); got != want {
				t.Fatalf("%s: the core's state is not what its records say:\n%s\nwant\n%s", d.Pos, got, want)
			}
			checkIndex(t, w.core)
			return b.String()
		})
	})
}

// checkIndex rebuilds the index from the image and compares.
func checkIndex(t interface{ Fatalf(string, ...any) }, c *Core) {
	want := New(c.Image(), c.opts, 0)
	if got, want := formatIndex(c), formatIndex(want); got != want {
		t.Fatalf("index is\n%s\nwant\n%s", got, want)
	}
}

func formatIndex(c *Core) string {
	var lines []string
	set := func(name string, s *keySet) {
		line := name
		for k := range keys(s) {
			line += fmt.Sprintf(" %s-%d", idName(k.topic), k.id)
		}
		if line != name {
			lines = append(lines, line)
		}
	}
	for b, s := range c.index.isr {
		set(fmt.Sprintf("isr %d:", b), s)
	}
	for b, s := range c.index.elr {
		set(fmt.Sprintf("elr %d:", b), s)
	}
	for b, s := range c.index.leader {
		set(fmt.Sprintf("leader %d:", b), s)
	}
	for dir, s := range c.index.dirs {
		set(fmt.Sprintf("dir %s:", idName(dir)), s)
	}
	set("imbalanced:", c.index.imbalanced)
	set("reassigning:", c.index.reassigning)
	for dir, owner := range c.dirOwner {
		lines = append(lines, fmt.Sprintf("owner %s: %d", idName(dir), owner))
	}
	for name, topics := range c.collisions {
		for topic := range topics {
			lines = append(lines, "collision "+name+": "+topic)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
