package testkit

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Seed is what a test that draws its own cases starts from: TESTKIT_SEED, so that
// the gate plays the same cases on every run and fails for a change, not by
// chance; without it, or with 0, a new one each time. It is logged, to play a
// failure again.
func Seed(t testing.TB) uint64 {
	t.Helper()
	text := os.Getenv("TESTKIT_SEED")
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil && text != "" {
		t.Fatalf("TESTKIT_SEED=%q: %v: give it a number, or 0 for a new one", text, err)
	}
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("TESTKIT_SEED=%d plays the same cases", seed)
	return seed
}
