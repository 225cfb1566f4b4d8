package lifecycle

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// blocks is a Sender that allocates.
type blocks struct {
	mu   sync.Mutex
	next int64
	err  error
	hold chan struct{}
	sent int
}

func (b *blocks) Send(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	b.mu.Lock()
	hold := b.hold
	b.sent++
	b.mu.Unlock()
	if hold != nil {
		<-hold
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return nil, b.err
	}
	r := kmsg.NewPtrAllocateProducerIDsResponse()
	r.ProducerIDStart, r.ProducerIDLen = b.next, 1000
	b.next += 1000
	return r, nil
}

func TestProducerIDsAreHandedOutOnce(t *testing.T) {
	b := &blocks{}
	p := NewProducerIDs(b, 1, func() int64 { return 9 })
	var mu sync.Mutex
	seen := map[int64]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 700 {
				id, err := p.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[id] {
					t.Errorf("id %d twice", id)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id := range seen {
		if id >= 7000 {
			t.Errorf("id %d: a block was skipped", id)
		}
	}
}

func TestProducerIDsPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &blocks{}
		p := NewProducerIDs(b, 1, func() int64 { return 9 })
		for range 901 {
			if _, err := p.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if b.sent != 2 {
			t.Fatalf("%d blocks fetched after 901 ids", b.sent)
		}
		b.err = errors.New("down")
		for range 1099 {
			if _, err := p.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Next(t.Context()); kerrors.CodeOf(err) != kerrors.CoordinatorLoadInProgress {
			t.Fatalf("without ids: %v", err)
		}
	})
}

func TestProducerIDsWaitNoLongerThanAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &blocks{hold: make(chan struct{})}
		p := NewProducerIDs(b, 1, func() int64 { return 9 })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Next(ctx); kerrors.CodeOf(err) != kerrors.CoordinatorLoadInProgress {
			t.Fatalf("error %v", err)
		}
		close(b.hold)
		if id, err := p.Next(t.Context()); err != nil || id != 0 {
			t.Fatalf("id %d, %v", id, err)
		}
	})
}
