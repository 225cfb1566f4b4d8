package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// topicBook knows what clients were told about topics: made, deleted, or nothing.
type topicBook struct {
	mu    sync.Mutex
	state map[string]string // "made", "gone"; no entry: in doubt
}

func (b *topicBook) set(topic, state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if state == "" {
		delete(b.state, topic)
	} else {
		b.state[topic] = state
	}
}

// churn makes topics, writes a record to each, and deletes every second one.
func (b *topicBook) churn(ctx context.Context, bootstrap string, worker int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.RetryTimeout(time.Minute), kgo.AlwaysRetryEOF())
	if err != nil {
		return err
	}
	defer cl.Close()
	ad := kadm.NewClient(cl)
	for n := 0; ctx.Err() == nil; n++ {
		topic := fmt.Sprintf("churn-%d-%d", worker, n)
		r, err := ad.CreateTopic(ctx, 2, 1, nil, topic)
		if err != nil || (r.Err != nil && !errors.Is(r.Err, kerr.TopicAlreadyExists)) {
			continue // in doubt
		}
		b.set(topic, "made")
		if n%2 == 1 {
			continue
		}
		b.set(topic, "")
		if r, err := ad.DeleteTopic(ctx, topic); err == nil && (r.Err == nil || errors.Is(r.Err, kerr.UnknownTopicOrPartition)) {
			b.set(topic, "gone")
		}
	}
	return nil
}

// listTopics asks anew each time: a client remembers what it was told for seconds.
func listTopics(t *testing.T, bootstrap string) kadm.TopicDetails {
	t.Helper()
	ad, ctx := admin(t, bootstrap)
	listed, err := ad.ListTopics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return listed
}

// check compares the book with what a restarted server lists.
func (b *topicBook) check(t *testing.T, bootstrap string) {
	t.Helper()
	b.mu.Lock()
	told := map[string]string{}
	for k, v := range b.state {
		told[k] = v
	}
	b.mu.Unlock()
	listed := listTopics(t, bootstrap)
	for topic, state := range told {
		switch d, ok := listed[topic]; {
		case state == "made" && (!ok || d.Err != nil || len(d.Partitions) != 2):
			t.Errorf("%s was made, the server has %+v", topic, d)
		case state == "gone" && ok && d.Err == nil:
			t.Errorf("%s was deleted and is back", topic)
		}
	}
}

// TestKillWhileTopicsChange kills the server while topics come and go, segments
// roll at nearly every batch and the metadata log is snapshotted all the time:
// what was made stays, what was deleted stays away with its folders, and no
// acknowledged record is lost. Folders whose deletion the kill cut short are set aside.
func TestKillWhileTopicsChange(t *testing.T) {
	kills := 10
	if testing.Short() {
		kills = 2
	}
	s := testkit.StartServer(t, "", "--set", "metadata.log.max.record.bytes.between.snapshots=2000", "--set", "log.segment.delete.delay.ms=0")
	newTopicWith(t, s.Bootstrap(), "rolls", 2, map[string]string{"segment.ms": "1"})
	l, b := newLedger(), &topicBook{state: map[string]string{}}
	stop := load(t, s.Bootstrap(), "rolls", 2, l)
	ctx, cancel := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	for w := range 2 {
		workers.Go(func() {
			if err := b.churn(ctx, s.Bootstrap(), w); err != nil {
				t.Error(err)
			}
		})
	}
	for range kills {
		waitForAcks(t, l, l.count()+100)
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond) // a random moment, not a wait for a condition
		s.Kill()
		before := l.count()
		s.Start()
		waitForAcks(t, l, before+1)
		b.check(t, s.Bootstrap())
	}
	cancel()
	workers.Wait()
	stop()
	b.check(t, s.Bootstrap())
	l.check(t, readAll(t, s.Bootstrap(), "rolls", 2))
	var want []string
	for topic := range listTopics(t, s.Bootstrap()) {
		want = append(want, filepath.Join(s.Dir, topic+"-0"), filepath.Join(s.Dir, topic+"-1"))
	}
	slices.Sort(want)
	eventually(t, "folders are those of the topics that there are", func() bool {
		got, _ := filepath.Glob(filepath.Join(s.Dir, "[cr]*-*"))
		got = slices.DeleteFunc(got, func(dir string) bool {
			return strings.HasSuffix(dir, "-checkpoint") || strings.HasSuffix(dir, "-stray") // deleted, and killed before the folder was
		})
		slices.Sort(got)
		return slices.Equal(got, want)
	})
	kept, _ := filepath.Glob(filepath.Join(s.Dir, "churn-*-stray"))
	if len(kept) > 0 && !strings.Contains(s.Log(), "renamed and kept") {
		t.Errorf("nobody says that %v are kept", kept)
	}
	snaps, _ := filepath.Glob(filepath.Join(s.Dir, "__cluster_metadata-0", "*.checkpoint"))
	segments, _ := filepath.Glob(filepath.Join(s.Dir, "rolls-*", "*.log"))
	b.mu.Lock()
	t.Logf("%v, %d topics told about, %d snapshots and %d segments at the end", l, len(b.state), len(snaps), len(segments))
	b.mu.Unlock()
	s.Stop()
}
