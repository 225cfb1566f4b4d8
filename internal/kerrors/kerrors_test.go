package kerrors

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestNamesAgreeWithKerr(t *testing.T) {
	for c, n := range names {
		var e *kerr.Error
		if c == None {
			continue
		}
		want := map[string]string{"NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER"} // kerr keeps the old names
		if !errors.As(kerr.ErrorForCode(int16(c)), &e) || (e.Message != n && want[e.Message] != n) {
			t.Errorf("code %d is %s here, %v in kerr", c, n, e)
		}
	}
}

func TestCodeOf(t *testing.T) {
	wrapped := fmt.Errorf("append: %w", New(KafkaStorageError, "folder %s is offline", "d1"))
	for _, tc := range []struct {
		err  error
		want Code
	}{
		{nil, None},
		{NotLeaderOrFollower, NotLeaderOrFollower},
		{fmt.Errorf("x: %w", FencedLeaderEpoch), FencedLeaderEpoch},
		{wrapped, KafkaStorageError},
		{errors.New("boom"), UnknownServerError},
	} {
		if got := CodeOf(tc.err); got != tc.want {
			t.Errorf("CodeOf(%v) = %v, want %v", tc.err, got, tc.want)
		}
	}
	if got := MessageOf(wrapped); got != "folder d1 is offline" {
		t.Errorf("MessageOf = %q", got)
	}
}
