package peer

import (
	"strings"
	"testing"
)

// TestParallelConsumerSaysWhatIsMissing: without a JDK its column has no figures
// and says why.
func TestParallelConsumerSaysWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	p, err := NewParallelConsumer("../../..")
	if p != nil || err == nil || !strings.Contains(err.Error(), "is missing (apt-get install -y ") {
		t.Errorf("%v, %v", p, err)
	}
}
