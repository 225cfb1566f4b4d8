package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// TestDemoTidemark and TestDemoKafka run the story and want the words of each
// phase in its lines.
func TestDemoTidemark(t *testing.T) { demoTest(t, testkit.StartServer(t, "").Bootstrap()) }

func TestDemoKafka(t *testing.T) { demoTest(t, testkit.StartKafka(t).Bootstrap()) }

// TestDemoLeavesOthersAlone: a topic "orders" of somebody else, as the README makes
// one, is neither read into quarantine nor called booked.
func TestDemoLeavesOthersAlone(t *testing.T) {
	addr := testkit.StartServer(t, "").Bootstrap()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("one")}, &kgo.Record{Topic: topic, Value: []byte("two")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	err = run([]string{"demo", "-bootstrap-server", addr, "-dir", t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), `topic orders holds 2 records that group billing has not read`) || !strings.Contains(err.Error(), "tidemark topic delete orders --yes") {
		t.Errorf("%v", err)
	}
}

func demoTest(t *testing.T, addr string) {
	bin := filepath.Join(t.TempDir(), "orders")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(bin, "demo", "-bootstrap-server", addr, "-dir", t.TempDir()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	phases := strings.Split(string(out), "\n== ")[1:]
	if len(phases) != 8 {
		t.Fatalf("%d phases\n%s", len(phases), out)
	}
	for i, words := range [][]string{
		{"IDLE"},
		{"records", "UNREAD"}, // paused at the bound of records
		{"STALLED at", "IDLE", "key \"order-0095\"", "last error: payment provider: 503 for order-0095"},
		{"4 records, 0 handled", "refuses the card of order-0095"},
		{"redriven", "IDLE"},
		{"Empty, 0 members", "UNREAD"},
		{"COMMIT-AHEAD", "EFFECT-BEHIND"},
		{"IDLE", "460 effects, each once"},
	} {
		for _, w := range words {
			if !strings.Contains(phases[i], w) {
				t.Errorf("phase %d lacks %q:\n%s", i+1, w, phases[i])
			}
		}
	}
	for _, i := range []int{0, 4, 7} {
		for _, w := range []string{"UNKNOWN", "STALLED", "BEHIND 1", "AHEAD 1"} {
			if strings.Contains(phases[i], w) {
				t.Errorf("phase %d has %q:\n%s", i+1, w, phases[i])
			}
		}
	}
}
