package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// TestAdvertisedOutOfReach: the first broker answers, and names an address where
// nobody does. Every command ends, and says whose setting that is.
func TestAdvertisedOutOfReach(t *testing.T) {
	b := testkit.StartServer(t, "", "--set", "advertised.listeners=PLAINTEXT://127.0.0.1:1").Bootstrap()
	for _, args := range []string{"produce t", "consume t --count 1", "group list", "topic create t", "lines --once"} {
		var out bytes.Buffer
		code := Main(t.Context(), append(strings.Fields(args), "-b", b, "--timeout", "2s"), Streams{In: strings.NewReader("one\n"), Out: &out, Err: &out}, nil)
		if code != 1 || !strings.Contains(out.String(), "127.0.0.1:1: connect: connection refused") || !strings.Contains(out.String(), "advertised.listeners") {
			t.Errorf("%s: code %d\n%s", args, code, out.String())
		}
	}
}
