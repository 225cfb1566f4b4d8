package suite

import (
	"maps"
	"testing"
)

func TestCountCalls(t *testing.T) {
	got := countCalls(`% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ------------------
 70.33    0.632924        2068       306        29 sendfile
 10.77    0.096915         940       103           pread64
------ ----------- ----------- --------- --------- ------------------
100.00    0.729839        1784       409        29 total
`)
	if want := map[string]int{"sendfile": 306, "pread64": 103}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
