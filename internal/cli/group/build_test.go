package group

import "github.com/twmb/franz-go/pkg/kadm"

func offsetsOf(topic string, p int32, at int64, metadata string) kadm.Offsets {
	o := kadm.Offsets{}
	o.Add(kadm.Offset{Topic: topic, Partition: p, At: at, LeaderEpoch: -1, Metadata: metadata})
	return o
}

func listed1(topic string, offset int64) kadm.ListedOffsets {
	return kadm.ListedOffsets{topic: {0: {Topic: topic, Offset: offset}}}
}
