package record

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestDocsTable: the header table of docs/formats/record-batch.md has the
// positions that the code uses, without gaps.
func TestDocsTable(t *testing.T) {
	raw, err := os.ReadFile("../../docs/formats/record-batch.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"baseOffset": baseOffsetPos, "batchLength": lengthPos, "partitionLeaderEpoch": leaderEpochPos, "magic": magicPos, "crc": crcPos,
		"attributes": attributesPos, "lastOffsetDelta": lastOffsetDeltaPos, "baseTimestamp": baseTimestampPos, "maxTimestamp": maxTimestampPos,
		"producerId": producerIDPos, "producerEpoch": producerEpochPos, "baseSequence": baseSequencePos, "recordsCount": countPos, "records": HeaderSize,
	}
	next := 0
	for _, line := range strings.Split(string(raw), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			continue
		}
		at, err := strconv.Atoi(strings.TrimSpace(cells[1]))
		name := strings.TrimSpace(cells[3])
		pos, known := want[name]
		if err != nil || !known {
			continue
		}
		delete(want, name)
		if at != pos || at != next {
			t.Errorf("%s is documented at %d, the code has %d, the row before ends at %d", name, at, pos, next)
		}
		if size, err := strconv.Atoi(strings.TrimSpace(cells[2])); err == nil {
			next = at + size
		}
	}
	for name := range want {
		t.Errorf("%s is not documented", name)
	}
}
