package cases

import (
	"os"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// broker is what a case runs against.
type broker interface {
	Bootstrap() string
	Restart()
}

// registry holds the cases by name; files register theirs in init.
var registry = map[string]func(*testing.T, broker){}

func register(name string, run func(*testing.T, broker)) { registry[name] = run }

// props are the ground rules of the cases on top of Kafka's defaults.
var props = []string{"group.initial.rebalance.delay.ms=0", "num.partitions=3"}

func TestFieldCases(t *testing.T) {
	t.Run("tidemark", func(t *testing.T) {
		var args []string
		for _, p := range props {
			args = append(args, "--set", p)
		}
		runAll(t, testkit.StartServer(t, "", args...))
	})
	t.Run("kafka", func(t *testing.T) {
		if testing.Short() {
			t.Skip("comparison with Apache Kafka left out: -short")
		}
		if os.Getenv("TESTKIT_CASES_KAFKA") == "0" {
			t.Skip("comparison with Apache Kafka left out: TESTKIT_CASES_KAFKA=0")
		}
		runAll(t, testkit.StartKafka(t, props...))
	})
}

func runAll(t *testing.T, b broker) {
	names := make([]string, 0, len(registry))
	for n := range registry {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		t.Run(n, func(t *testing.T) { registry[n](t, b) })
	}
}

// unique returns a topic or group name of this test.
func unique(t *testing.T, suffix string) string {
	name := t.Name()
	name = name[strings.LastIndex(name, "/")+1:]
	return strings.NewReplacer("/", "-", " ", "-").Replace(name) + "-" + suffix
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }
