package testkit_test

import (
	"testing"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

func TestSeed(t *testing.T) {
	t.Setenv("TESTKIT_SEED", "7")
	if got := testkit.Seed(t); got != 7 {
		t.Errorf("seed %d, want the one of TESTKIT_SEED", got)
	}
	for _, none := range []string{"", "0"} {
		t.Setenv("TESTKIT_SEED", none)
		if testkit.Seed(t) == 0 {
			t.Errorf("TESTKIT_SEED=%q: the seed is 0 and not a new one", none)
		}
	}
}
