package exporter

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tidemark-io/tidemark/consumer"
)

// TestDocsNameEverySeries: docs/lines.md says which series the exporter has and
// which stay with the process that knows them. Every series of WriteMetrics is in one
// of the two tables, and nothing is in the second that WriteMetrics does not have.
func TestDocsNameEverySeries(t *testing.T) {
	text, err := os.ReadFile("../../../docs/lines.md")
	if err != nil {
		t.Fatal(err)
	}
	shared, alone, ok := strings.Cut(string(text), "of `WriteMetrics` alone")
	if !ok {
		t.Fatal("docs/lines.md has lost its table of what stays with the process")
	}
	_, shared, _ = strings.Cut(shared, "| series (`tidemark_line_...`)")
	alone, _, _ = strings.Cut(alone, "\n\n")
	exported, own := seriesIn(shared), seriesIn(alone)

	written := writeMetrics(t)
	if len(written) < 20 {
		t.Fatalf("WriteMetrics has %d series only", len(written))
	}
	for name := range written {
		if !exported[name] && !own[name] {
			t.Errorf("docs/lines.md names %s in neither table", name)
		}
	}
	for name := range own {
		if !written[name] {
			t.Errorf("docs/lines.md says that WriteMetrics has %s", name)
		}
	}
}

// seriesIn are the names in backquotes, without labels.
func seriesIn(text string) map[string]bool {
	names := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z_]+)(\\{[^`]*\\})?`").FindAllStringSubmatch(text, -1) {
		names[m[1]] = true
	}
	return names
}

func writeMetrics(t *testing.T) map[string]bool {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	c, err := consumer.Open(consumer.Config{Brokers: fake.ListenAddrs(), Group: "billing", Topics: []string{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	if err := c.Handle(func(context.Context, consumer.Record) consumer.Outcome { return consumer.Done }); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.WriteMetrics(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE tidemark_([a-z_]+) `).FindAllStringSubmatch(out.String(), -1) {
		names[m[1]] = true
	}
	return names
}
