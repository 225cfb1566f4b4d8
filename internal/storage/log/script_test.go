package log

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// script runs the text scripts in testdata/scripts: one log, one command a line.
//
//	open [key=value of the topic configuration ...]
//	append values=(a,b) [ts=N] [epoch=N] [pid=N seq=N pepoch=N txn marker=abort|commit] [times=N]
//	follow ...      as append, but as a follower; at=N sets the base offset
//	read from=N [max=N] [upper=hw|lso|end|N] [min-one] [aborted]
//	time ts=N | max-timestamp | epoch-end epoch=N | epoch epoch=N
//	hw to=N | flush | checkpoint | truncate to=N | truncate-fully to=N | delete-records to=N
//	retain [now=N] | tick now=N | restart [kill|power-cut] | capacity bytes=N | delete
//	offsets | segments | files | producers | warnings
type script struct {
	t   *testing.T
	fs  *vfs.Mem
	cfg config.TopicConfig
	h   *host
	l   *Log
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := s.run(d)
			if out == "" {
				return "ok\n"
			}
			return strings.TrimRight(out, "\n") + "\n"
		})
		if s.h != nil {
			_ = s.h.stop(false)
		}
	})
}

func num(d *datadriven.TestData, key string, def int64) int64 {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) == 1 {
			v := a.Vals[0]
			base := int64(0)
			if rest, ok := strings.CutPrefix(v, "t+"); ok {
				base, v = day0, rest
			}
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				d.Fatalf(nil, "%s=%s", key, v)
			}
			return base + n
		}
	}
	return def
}

func text(d *datadriven.TestData, key string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return strings.Join(a.Vals, ",")
		}
	}
	return ""
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return kerrors.CodeOf(err).Name()
}

func (s *script) run(d *datadriven.TestData) string {
	switch d.Cmd {
	case "open":
		return s.open(d)
	case "append", "follow":
		return s.append(d)
	case "read":
		return s.read(d)
	case "time", "max-timestamp":
		return s.time(d)
	case "restart":
		return s.restart(d)
	case "offsets", "segments", "files", "producers", "warnings", "epochs":
		return s.show(d.Cmd)
	}
	return s.change(d)
}

func (s *script) open(d *datadriven.TestData) string {
	s.fs = vfs.NewMem()
	s.cfg = testConfig()
	s.cfg.Durability = config.Relaxed
	for _, set := range []struct {
		key string
		to  *int64
	}{
		{"segment.ms", &s.cfg.SegmentMs}, {"retention.ms", &s.cfg.RetentionMs}, {"retention.bytes", &s.cfg.RetentionBytes},
		{"file.delete.delay.ms", &s.cfg.FileDeleteDelayMs}, {"segment.jitter.ms", &s.cfg.SegmentJitterMs},
	} {
		*set.to = num(d, set.key, *set.to)
	}
	s.cfg.SegmentBytes = int(num(d, "segment.bytes", int64(s.cfg.SegmentBytes)))
	s.cfg.SegmentIndexBytes = int(num(d, "segment.index.bytes", int64(s.cfg.SegmentIndexBytes)))
	s.cfg.MaxMessageBytes = int(num(d, "max.message.bytes", int64(s.cfg.MaxMessageBytes)))
	s.cfg.MessageTimestampLogAppend = d.HasArg("log-append-time")
	if p := text(d, "cleanup.policy"); p != "" {
		s.cfg.CleanupDelete, s.cfg.CleanupCompact = strings.Contains(p, "delete"), strings.Contains(p, "compact")
	}
	return s.reopen()
}

func (s *script) reopen() string {
	h, err := start(s.fs, s.cfg)
	if err != nil {
		return err.Error()
	}
	s.h = h
	h.quiet()
	s.l, err = h.m.Create(testTP, testID, s.cfg)
	if err != nil {
		return err.Error()
	}
	return ""
}

func (s *script) build(d *datadriven.TestData, base int64) []byte {
	o := record.BuilderOptions{BaseOffset: base, LeaderEpoch: -1}
	if pid := num(d, "pid", -1); pid >= 0 {
		o.HasProducer, o.ProducerID, o.ProducerEpoch = true, pid, int16(num(d, "pepoch", 0))
		o.BaseSequence = int32(num(d, "seq", 0))
		o.Transactional = d.HasArg("txn") || d.HasArg("marker")
	}
	ts := num(d, "ts", day0)
	if m := text(d, "marker"); m != "" {
		return txnBatch(base, o.ProducerID, -1, m)
	}
	b := record.NewBuilder(o)
	for _, a := range d.CmdArgs {
		if a.Key != "values" {
			continue
		}
		for i, v := range a.Vals {
			at := ts
			if value, when, ok := strings.Cut(v, "@"); ok { // value@timestamp
				n, err := strconv.ParseInt(when, 10, 64)
				if err != nil {
					d.Fatalf(s.t, "timestamp %s", when)
				}
				v, at = value, n
			} else {
				at += int64(i)
			}
			b.Append(at, []byte("k"), []byte(v))
		}
	}
	out, err := b.Build()
	if err != nil {
		d.Fatalf(s.t, "%v", err)
	}
	return out
}

func (s *script) append(d *datadriven.TestData) string {
	var out strings.Builder
	epoch := int32(num(d, "epoch", int64(max(0, s.l.LatestEpoch()))))
	for range num(d, "times", 1) {
		var info AppendInfo
		var err error
		if d.Cmd == "follow" {
			b := record.Batch(s.build(d, num(d, "at", s.l.LogEndOffset())))
			b.SetPartitionLeaderEpoch(int32(num(d, "batch-epoch", int64(epoch))))
			info, err = s.l.AppendAsFollower(b, epoch)
		} else {
			info, err = s.l.AppendAsLeader(AppendInput{Records: s.build(d, 0), LeaderEpoch: epoch, NowMs: num(d, "now", num(d, "ts", day0)), ProduceVersion: 9})
		}
		if err != nil {
			return out.String() + outcome(err)
		}
		out.Reset()
		fmt.Fprintf(&out, "%d..%d records=%d", info.FirstOffset, info.LastOffset, info.RecordCount)
		if info.LogAppendTimeMs >= 0 {
			fmt.Fprintf(&out, " appendTime=t+%d", info.LogAppendTimeMs-day0)
		}
		if info.Duplicate {
			out.WriteString(" duplicate")
		}
	}
	return out.String()
}

func (s *script) read(d *datadriven.TestData) string {
	upper := s.l.LogEndOffset()
	switch u := text(d, "upper"); u {
	case "hw":
		upper = s.l.HighWatermark()
	case "lso":
		upper = s.l.LastStableOffset()
	case "", "end":
	default:
		upper = num(d, "upper", 0)
	}
	r, err := s.l.Read(ReadInput{
		StartOffset: num(d, "from", 0), MaxBytes: int(num(d, "max", 1<<20)), UpperBound: upper,
		MinOneBatch: d.HasArg("min-one"), IncludeAborted: d.HasArg("aborted"),
	})
	if err != nil {
		return outcome(err)
	}
	defer r.Release()
	var out strings.Builder
	fmt.Fprintf(&out, "%d bytes", r.SizeBytes)
	if r.FirstBatchIncomplete {
		out.WriteString(", first batch incomplete")
	}
	if r.SizeBytes > 0 {
		b := make([]byte, r.SizeBytes)
		if _, err := r.Records.File.ReadAt(b, r.Records.Pos); err != nil {
			return err.Error()
		}
		for bt, err := range record.Batches(b) {
			if err != nil {
				fmt.Fprintf(&out, " | cut")
				break
			}
			fmt.Fprintf(&out, " | %d..%d e%d", bt.BaseOffset(), bt.LastOffset(), bt.PartitionLeaderEpoch())
		}
	}
	for _, a := range r.Aborted {
		fmt.Fprintf(&out, "\naborted producer %d from %d", a.ProducerID, a.FirstOffset)
	}
	return out.String()
}

func (s *script) time(d *datadriven.TestData) string {
	var f TimestampOffset
	var ok bool
	var err error
	if d.Cmd == "time" {
		f, ok, err = s.l.OffsetForTimestamp(num(d, "ts", 0), num(d, "upper", s.l.LogEndOffset()))
	} else {
		f, ok, err = s.l.OffsetForMaxTimestamp()
	}
	switch {
	case err != nil:
		return outcome(err)
	case !ok:
		return "none"
	case f.TimestampMs >= day0:
		return fmt.Sprintf("offset %d time t+%d epoch %d", f.Offset, f.TimestampMs-day0, f.LeaderEpoch)
	}
	return fmt.Sprintf("offset %d time %d epoch %d", f.Offset, f.TimestampMs, f.LeaderEpoch)
}

func (s *script) restart(d *datadriven.TestData) string {
	clean := !d.HasArg("kill") && !d.HasArg("power-cut")
	left := s.fs
	if d.HasArg("power-cut") {
		left = s.fs.CrashClone(vfs.CrashOptions{UnsyncedPercent: int(num(d, "kept", 0))})
	}
	if err := s.h.stop(clean); err != nil {
		return err.Error()
	}
	s.fs = left
	return s.reopen()
}

func (s *script) change(d *datadriven.TestData) string {
	to := num(d, "to", 0)
	switch d.Cmd {
	case "hw":
		return fmt.Sprintf("high watermark %d", s.l.SetHighWatermark(to))
	case "flush":
		return outcome(s.l.Flush())
	case "checkpoint":
		return outcome(s.h.m.Checkpoint())
	case "truncate":
		return outcome(s.l.TruncateTo(to))
	case "truncate-fully":
		return outcome(s.l.TruncateFullyAndStartAt(to))
	case "delete-records":
		return outcome(s.l.IncrementLogStartOffset(to))
	case "epoch":
		return outcome(s.l.AssignLeaderEpoch(int32(num(d, "epoch", 0))))
	case "epoch-end":
		e, off := s.l.EndOffsetForEpoch(int32(num(d, "epoch", 0)))
		return fmt.Sprintf("epoch %d ends at %d", e, off)
	case "retain":
		n, err := s.l.DeleteOldSegments(num(d, "now", day0))
		return fmt.Sprintf("%d segments deleted, %s", n, outcome(err))
	case "tick":
		s.h.m.folders[0].tick(num(d, "now", day0))
		return ""
	case "capacity":
		s.fs.SetCapacity(num(d, "bytes", 0))
		return ""
	case "delete":
		return outcome(s.h.m.Delete(testTP))
	case "stray":
		return outcome(s.h.m.MarkStray(testTP))
	case "create":
		l, err := s.h.m.Create(testTP, types.UUID{byte(num(d, "id", 1))}, s.cfg)
		if err == nil {
			s.l = l
		}
		return outcome(err)
	}
	d.Fatalf(s.t, "unknown command %s", d.Cmd)
	return ""
}

func (s *script) show(what string) string {
	var out strings.Builder
	switch what {
	case "offsets":
		fmt.Fprintf(&out, "start %d, stable %d, hw %d, durable %d, end %d, epoch %d", s.l.LogStartOffset(), s.l.LastStableOffset(), s.l.HighWatermark(), s.l.DurableEndOffset(), s.l.LogEndOffset(), s.l.LatestEpoch())
	case "segments":
		for _, g := range s.l.Segments() {
			fmt.Fprintf(&out, "%d: %d bytes, max time %d\n", g.BaseOffset, g.SizeBytes, max(-1, g.MaxTimestampMs-day0))
		}
	case "files":
		s.files(&out, "/data")
		s.files(&out, s.l.Path())
	case "producers":
		for _, p := range s.l.Producers() {
			fmt.Fprintf(&out, "producer %d epoch %d last sequence %d last offset %d transaction from %d\n", p.ProducerID, p.Epoch, p.LastSequence(), p.LastOffset(), p.CurrentTxnFirstOffset)
		}
	case "epochs":
		for _, e := range s.l.EpochEntries() {
			fmt.Fprintf(&out, "epoch %d from %d\n", e.Epoch, e.StartOffset)
		}
	case "warnings":
		for line := range strings.Lines(s.h.logged.String()) {
			_, msg, _ := strings.Cut(line, "msg=")
			msg, _, _ = strings.Cut(msg, " dir=")
			out.WriteString(msg + "\n")
		}
		s.h.logged.Reset()
	}
	return out.String()
}

func (s *script) files(out *strings.Builder, dir string) {
	names, err := s.fs.List(dir)
	if err != nil {
		fmt.Fprintf(out, "%v\n", err)
		return
	}
	slices.Sort(names)
	for _, n := range names {
		info, err := s.fs.Stat(dir + "/" + n)
		if err != nil {
			fmt.Fprintf(out, "%v\n", err)
			continue
		}
		if i := strings.Index(n, "."); i > 0 && (strings.HasSuffix(n, deleteSuffix) || strings.HasSuffix(n, straySuffix)) {
			n = n[:i] + ".<id>" + n[strings.LastIndexByte(n, '-'):]
		}
		fmt.Fprintf(out, "%s %d\n", n, info.Size())
	}
}
