package configs

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// TestUnchanged: a setting that is read at the start says where it is changed.
func TestUnchanged(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind kmsg.ConfigResourceType
		want string
	}{
		{kerr.InvalidRequest, kmsg.ConfigResourceTypeBroker, "goes into the server's configuration file"},
		{kerr.InvalidConfig, kmsg.ConfigResourceTypeBroker, "see the names and values"},
		{kerr.InvalidRequest, kmsg.ConfigResourceTypeTopic, ""},
	} {
		err := unchanged(c.err, "Cannot update these configs dynamically: [broker.rack]", Resource{c.kind, "1"})
		var e *app.Error
		if !errors.As(err, &e) || !strings.Contains(e.Hint, c.want) || (c.want == "" && e.Hint != "") {
			t.Errorf("%v: fix %q, want %q", err, e.Hint, c.want)
		}
	}
}

// TestNotes: what is given and not acted on is said, whichever layer gives it;
// of a setting that is in force but for one value, that value only.
func TestNotes(t *testing.T) {
	const all, partly = "Sizes. Not in force here: waits for quotas.", "Old data. Not in force here: compact: not yet carried out."
	for _, tc := range []struct {
		value, source, doc string
		want               []string
	}{
		{"1", "DYNAMIC_TOPIC_CONFIG", "Sizes.", nil},
		{"1", "DYNAMIC_TOPIC_CONFIG", all, []string{"k is set but not in force: waits for quotas"}},
		{"1", "DEFAULT_CONFIG", all, nil},
		{"1", "STATIC_BROKER_CONFIG", all, nil}, // the broker's own log says it, at the start
		{"compact", "DYNAMIC_TOPIC_CONFIG", partly, []string{"k is set but not in force: compact: not yet carried out"}},
		{"delete", "DYNAMIC_TOPIC_CONFIG", partly, nil},
		{"compact,delete", "DYNAMIC_DEFAULT_BROKER_CONFIG", partly, []string{"k is set but not in force: compact: not yet carried out"}},
		{"compact", "STATIC_BROKER_CONFIG", partly, []string{"k is set but not in force: compact: not yet carried out"}},
	} {
		if got := Notes([]Entry{{Name: "k", Value: &tc.value, Source: tc.source, Doc: tc.doc}}); !slices.Equal(got, tc.want) {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}
