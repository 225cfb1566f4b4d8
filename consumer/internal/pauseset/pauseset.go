package pauseset

import "github.com/tidemark-io/tidemark/internal/types"

// Load is what counts against bounds.
type Load struct {
	Records int
	Bytes   int64
	Window  int // delivered from the first unfinished record on
}

// Limits are the bounds of one partition, or of all together (Window 0: none).
type Limits struct {
	Records int
	Bytes   int64
	Window  int
}

// Reasons of a pause.
const (
	Records = "records"
	Bytes   = "bytes"
	Window  = "window"
)

// Reason says which bound holds fetching, "" for none. now is the reason of the
// present pause: that bound, and no other, must be a quarter free to let go. A
// bound that was never reached must not keep what another one paused.
func (l Limits) Reason(load Load, now string) string {
	switch {
	case full(int64(load.Records), int64(l.Records), now == Records):
		return Records
	case full(load.Bytes, l.Bytes, now == Bytes):
		return Bytes
	case full(int64(load.Window), int64(l.Window), now == Window):
		return Window
	}
	return ""
}

func full(load, limit int64, held bool) bool {
	if held {
		limit -= limit / 4
	}
	return limit > 0 && load >= limit
}

// Diff compares the wanted set with what the client has paused and returns what
// to pause and what to resume. Paused partitions that nobody wants paused, owned
// or not, are resumed.
func Diff(wanted map[types.TopicPartition]string, actual map[string][]int32) (pause, resume map[string][]int32) {
	have := map[types.TopicPartition]bool{}
	for topic, partitions := range actual {
		for _, p := range partitions {
			tp := types.TopicPartition{Topic: topic, Partition: p}
			have[tp] = true
			if wanted[tp] == "" {
				resume = add(resume, tp)
			}
		}
	}
	for tp, reason := range wanted {
		if reason != "" && !have[tp] {
			pause = add(pause, tp)
		}
	}
	return pause, resume
}

func add(m map[string][]int32, tp types.TopicPartition) map[string][]int32 {
	if m == nil {
		m = map[string][]int32{}
	}
	m[tp.Topic] = append(m[tp.Topic], tp.Partition)
	return m
}
