package apis

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

type kafkaRow struct {
	name     string
	min, max int16
}

// readTSV reads what a running Apache Kafka 4.3.1 advertises on one listener.
func readTSV(t *testing.T, path string) map[int16]kafkaRow {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[int16]kafkaRow{}
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n")[1:] {
		f := strings.Split(line, "\t")
		var n [3]int16
		for i, s := range []string{f[0], f[2], f[3]} {
			v, err := strconv.ParseInt(s, 10, 16)
			if err != nil {
				t.Fatalf("%s: %q: %v", path, line, err)
			}
			n[i] = int16(v)
		}
		out[n[0]] = kafkaRow{f[1], n[1], n[2]}
	}
	return out
}

// sameName forgives the spelling of the client library that wrote the tables.
func sameName(ours, theirs string) bool {
	return strings.EqualFold(ours, theirs) || (ours == "AlterPartitionReassignments" && theirs == "AlterPartitionAssignments")
}

// TestTableEqualsKafka: every API that Kafka advertises is in the table with
// exactly its range; what we do not serve has a reason, and nothing is extra.
func TestTableEqualsKafka(t *testing.T) {
	for l, path := range map[Listener]string{Broker: "testdata/api-broker.tsv", Controller: "testdata/api-controller.tsv"} {
		kafka := readTSV(t, path)
		ours := map[int16]API{}
		for _, a := range Advertised(l) {
			ours[a.Key] = a
		}
		for key, k := range kafka {
			row, ok := ByKey(key)
			if !ok || !row.Exists(l) {
				t.Errorf("%v: %s (%d) is not in the table", l, k.name, key)
				continue
			}
			if !sameName(row.Name, k.name) {
				t.Errorf("%v: key %d is %s, Kafka says %s", l, key, row.Name, k.name)
			}
			minV := row.Min
			if l == Broker {
				minV = row.AdvertisedMin
			}
			if minV != k.min || row.Max != k.max {
				t.Errorf("%v: %s %d-%d, Kafka says %d-%d", l, row.Name, minV, row.Max, k.min, k.max)
			}
			if a, served := ours[key]; served {
				if a.Min != k.min || a.Max != k.max {
					t.Errorf("%v: %s is advertised as %d-%d, Kafka says %d-%d", l, a.Name, a.Min, a.Max, k.min, k.max)
				}
			} else if row.Reason == "" {
				t.Errorf("%v: %s is not served and no reason is listed", l, row.Name)
			}
		}
		for key, a := range ours {
			if _, ok := kafka[key]; !ok {
				t.Errorf("%v: %s is advertised, Kafka does not", l, a.Name)
			}
		}
	}
}

func TestTableIsConsistent(t *testing.T) {
	last := int16(-1)
	for _, a := range All() {
		if a.Key <= last {
			t.Errorf("%s: key %d is out of order", a.Name, a.Key)
		}
		last = a.Key
		if a.Min > a.Max || a.Min < 0 {
			t.Errorf("%s: range %d-%d", a.Name, a.Min, a.Max)
		}
		if (a.On(Broker) && !a.Broker) || (a.On(Controller) && !a.Controller) {
			t.Errorf("%s is served on a listener that Kafka does not serve it on", a.Name)
		}
		everywhere := a.On(Broker) == a.Broker && a.On(Controller) == a.Controller
		if everywhere != (a.Reason == "") {
			t.Errorf("%s: served everywhere is %v, reason %q", a.Name, everywhere, a.Reason)
		}
		if a.Served != (a.On(Broker) || a.On(Controller)) {
			t.Errorf("%s: Served is %v", a.Name, a.Served)
		}
	}
}

func TestRemovedAndUnknownKeys(t *testing.T) {
	for _, key := range []int16{-32768, -1, 4, 5, 6, 7, 93, 94, 1000, 32767} {
		if a, ok := ByKey(key); ok {
			t.Errorf("key %d is %s, want none", key, a.Name)
		}
	}
}

func TestProduceAdvertisesZero(t *testing.T) {
	for _, a := range Advertised(Broker) {
		if a.Key == 0 && a.Min != 0 {
			t.Errorf("Produce is advertised from %d, want 0 (KAFKA-18659)", a.Min)
		}
	}
	if a, _ := ByKey(0); a.Supports(2) || !a.Supports(3) || !a.Supports(13) || a.Supports(14) {
		t.Error("Produce must be served at exactly 3 to 13")
	}
}

func TestServes(t *testing.T) {
	for _, c := range []struct {
		l            Listener
		key, version int16
		want         bool
	}{
		{Broker, 0, 13, true}, {Broker, 0, 2, false}, {Controller, 0, 13, false}, {Controller, 62, 4, true}, {Broker, 62, 4, false},
		{Broker, 18, 4, true}, {Broker, 18, 5, false}, {Broker, 7, 0, false}, {Broker, 11, 9, true}, {Broker, 76, 1, false},
	} {
		if got := Serves(c.l, c.key, c.version); got != c.want {
			t.Errorf("%v key %d v%d: %v, want %v", c.l, c.key, c.version, got, c.want)
		}
	}
}
