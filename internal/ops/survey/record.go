package survey

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrNoRecord says that nothing can be read at or after an offset.
var ErrNoRecord = errors.New("there is no record to read there")

// Record reads the first record at or after an offset. A compacted log may have
// none at the offset itself.
func Record(ctx context.Context, dial []kgo.Opt, topic string, partition int32, offset int64) (*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, dateTimeout)
	defer cancel()
	at := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(offset)}}
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, dial...), kgo.ConsumePartitions(at), kgo.FetchMaxPartitionBytes(dateBytes),
		kgo.FetchMaxWait(250*time.Millisecond), kgo.ConsumeResetOffset(kgo.NoResetOffset()))...)
	if err != nil {
		return nil, err
	}
	defer cl.CloseAllowingRebalance()
	for {
		fetches := cl.PollRecords(ctx, 1)
		if ctx.Err() != nil {
			return nil, ErrNoRecord
		}
		for _, e := range fetches.Errors() {
			return nil, e.Err
		}
		if records := fetches.Records(); len(records) > 0 {
			return records[0], nil
		}
	}
}
