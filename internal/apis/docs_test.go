package apis

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/apis.md from the table")

const docsPath = "../../docs/apis.md"

// TestDocs keeps docs/apis.md equal to the table; -update writes it.
func TestDocs(t *testing.T) {
	want := renderDocs()
	if *update {
		if err := os.WriteFile(docsPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docsPath)
	if err != nil || string(got) != want {
		t.Errorf("docs/apis.md is not what the table says (%v); run: go test ./internal/apis -run TestDocs -update", err)
	}
}

func renderDocs() string {
	var w strings.Builder
	w.WriteString(`# APIs

Every API of Apache Kafka 4.3: the versions it has there, and where this release serves it, at exactly those versions. "-" is a listener on which Kafka
does not have the API either. Generated from ` + "`internal/apis`" + `.

| key | API | versions | flexible from | broker listener | controller listener | if not served |
|---|---|---|---|---|---|---|
`)
	for _, a := range All() {
		flexible := fmt.Sprint(a.FirstFlexible)
		if a.FirstFlexible == NeverFlexible {
			flexible = "never"
		}
		versions := fmt.Sprintf("%d-%d", a.Min, a.Max)
		if a.Min == a.Max {
			versions = fmt.Sprint(a.Min)
		}
		if a.AdvertisedMin != a.Min {
			versions += fmt.Sprintf(" (advertised from %d)", a.AdvertisedMin)
		}
		fmt.Fprintf(&w, "| %d | %s | %s | %s | %s | %s | %s |\n", a.Key, a.Name, versions, flexible, mark(a, Broker), mark(a, Controller), a.Reason)
	}
	return w.String()
}

func mark(a API, l Listener) string {
	switch {
	case a.On(l):
		return "yes"
	case a.Exists(l):
		return "no"
	}
	return "-"
}
