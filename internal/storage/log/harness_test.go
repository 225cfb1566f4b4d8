package log

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

var (
	testTP = types.TopicPartition{Topic: "t", Partition: 0}
	testID = types.UUID{1, 2, 3}
)

// zeroes is a source of ids that makes every run the same.
type counting struct{ n byte }

func (c *counting) Read(b []byte) (int, error) {
	for i := range b {
		c.n += 7
		b[i] = c.n
	}
	return len(b), nil
}

// host is a data folder with a manager on it.
type host struct {
	fs     vfs.FS
	dir    *logdir.Dir
	m      *Manager
	now    *atomic.Int64
	logged *bytes.Buffer
	cfg    config.TopicConfig
}

const day0 = int64(1_700_000_000_000)

// start opens the folder /data on fs; tune may change the options.
func start(fs vfs.FS, cfg config.TopicConfig, tune ...func(*ManagerOptions)) (*host, error) {
	h := &host{fs: fs, now: &atomic.Int64{}, logged: &bytes.Buffer{}, cfg: cfg}
	h.now.Store(day0)
	dir, err := logdir.Open(logdir.Options{FS: fs, Paths: []string{"/data"}, NodeID: 1, Format: true, Random: &counting{}, Now: time.UnixMilli(day0)})
	if err != nil {
		return nil, err
	}
	h.dir = dir
	o := ManagerOptions{
		FS: fs, Dirs: []*logdir.Dir{dir}, Now: h.now.Load, Logger: slog.New(slog.NewTextHandler(h.logged, &slog.HandlerOptions{Level: slog.LevelWarn})),
		TopicConfig: func(string) config.TopicConfig { return cfg },
		Jitter:      func(int64) int64 { return 0 }, ConfigsKnown: true,
	}
	for _, t := range tune {
		t(&o)
	}
	if h.m, err = OpenManager(o); err != nil {
		_ = dir.Close()
		return nil, err
	}
	return h, nil
}

// stop closes everything; clean says how.
func (h *host) stop(clean bool) error {
	done, err := h.m.Close(clean)
	if len(done) == 1 && err == nil {
		return h.dir.CloseClean(-1)
	}
	if cerr := h.dir.Close(); err == nil {
		err = cerr
	}
	return err
}

func mustStart(t testing.TB, fs vfs.FS, cfg config.TopicConfig, tune ...func(*ManagerOptions)) *host {
	t.Helper()
	h, err := start(fs, cfg, tune...)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return h
}

func (h *host) log(t testing.TB) *Log {
	t.Helper()
	l, err := h.m.Create(testTP, testID, h.cfg)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return l
}

func testConfig() config.TopicConfig {
	cfg := config.DefaultTopicConfig()
	cfg.SegmentBytes = 4096
	cfg.IndexIntervalBytes = 128
	cfg.SegmentIndexBytes = 1200
	return cfg
}

// batch builds one batch of n records, offsets from 0, timestamps from ts on.
func batch(ts int64, values ...string) []byte {
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
	for i, v := range values {
		b.Append(ts+int64(i), nil, []byte(v))
	}
	out, err := b.Build()
	if err != nil {
		panic(err)
	}
	return out
}

func appendValues(l *Log, nowMs int64, values ...string) (AppendInfo, error) {
	return l.AppendAsLeader(AppendInput{Records: batch(nowMs, values...), LeaderEpoch: max(0, l.LatestEpoch()), NowMs: nowMs, ProduceVersion: 9})
}

// readAll returns "offset:value" of everything in [from, upper).
func readAll(l *Log, from, upper int64) ([]string, error) {
	var out []string
	for from < upper {
		r, err := l.Read(ReadInput{StartOffset: from, MaxBytes: 700, UpperBound: upper, MinOneBatch: true})
		if err != nil {
			return out, err
		}
		if r.SizeBytes == 0 {
			return out, fmt.Errorf("nothing at offset %d below %d", from, upper)
		}
		b := make([]byte, r.SizeBytes)
		_, err = r.Records.File.ReadAt(b, r.Records.Pos)
		r.Release()
		if err != nil {
			return out, err
		}
		for bt, err := range record.Batches(b) {
			if err != nil {
				break // a cut last batch
			}
			if err := bt.Verify(); err != nil {
				return out, err
			}
			for rec, err := range bt.Records(1 << 20) {
				if err != nil {
					return out, err
				}
				if rec.Offset >= from && rec.Offset < upper {
					out = append(out, fmt.Sprintf("%d:%s", rec.Offset, rec.Value))
				}
			}
			if bt.NextOffset() > from {
				from = bt.NextOffset()
			}
		}
	}
	return out, nil
}

func wantCode(t interface {
	Helper()
	Fatalf(string, ...any)
}, err error, code kerrors.Code) {
	t.Helper()
	if kerrors.CodeOf(err) != code {
		t.Fatalf("got %v, want %v", err, code.Name())
	}
}
