package offsets

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

// TestOneReadingFails: the other numbers are shown, the one that failed is absent
// and not 0, and the exit code tells.
func TestOneReadingFails(t *testing.T) {
	fake := testkit.StartGuardedFake(t, kfake.SeedTopics(2, "orders", "secret"))
	run := func(args ...string) (string, int) {
		var out bytes.Buffer
		a := &app.App{In: strings.NewReader(""), Out: &out, Err: &out}
		root := &cobra.Command{Use: "tidemark", SilenceUsage: true, SilenceErrors: true}
		a.Bind(root)
		root.AddCommand(Command(a))
		root.SetArgs(append([]string{"-b", fake.ListenAddrs()[0], "offsets"}, args...))
		err := root.ExecuteContext(t.Context())
		if err != nil {
			a.Report(err)
		}
		return out.String(), app.Code(err)
	}
	want := func(code int, args string, parts ...string) {
		t.Helper()
		out, got := run(strings.Fields(args)...)
		for _, p := range parts {
			if !strings.Contains(out, p) {
				t.Errorf("offsets %s lacks %q:\n%s", args, p, out)
			}
		}
		if got != code {
			t.Errorf("offsets %s: code %d, want %d:\n%s", args, got, code, out)
		}
	}
	want(0, "orders", "        0      0    0     0")
	testkit.DenyTopic(t, fake, "secret")
	want(1, "secret", "TOPIC_AUTHORIZATION_FAILED")
	want(1, "nosuch", "UNKNOWN_TOPIC_OR_PARTITION")
	fake.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		list := req.(*kmsg.ListOffsetsRequest)
		if list.Topics[0].Partitions[0].Timestamp != -2 {
			return nil, nil, false
		}
		return testkit.FailedListing(list, kerr.UnknownServerError), nil, true
	})
	want(3, "orders", "        0      ?    0     ?      0", "        1      ?    0", "offsets of orders/0: UNKNOWN_SERVER_ERROR")
	want(3, "orders --at 1h --format json", `"start": null`, `"end": 0`, `"at": -1`)
}
