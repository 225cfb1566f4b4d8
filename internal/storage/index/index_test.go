package index

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"math"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/storage/filecache"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

type fixed string

func (f fixed) FilePath(uint8) string { return string(f) }

func newOffset(t interface{ Fatal(...any) }, fs vfs.FS, base int64, maxBytes int) *Offset {
	if err := fs.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	x := &Offset{}
	x.Init(filecache.New(fs, 2), fixed("/d/x.index"), 0, base, maxBytes)
	return x
}

// TestGoldenBytes compares with entries that Apache Kafka 4.3.1 wrote.
func TestGoldenBytes(t *testing.T) {
	off, err := AppendOffsetEntry(nil, 4992, OffsetEntry{Offset: 5147, Position: 16377})
	if err != nil || hex.EncodeToString(off) != "0000009b00003ff9" {
		t.Errorf("offset entry %x %v", off, err)
	}
	at, err := AppendTimeEntry(nil, 4992, TimeEntry{TimestampMs: 1796054569590, Offset: 5069})
	if err != nil || hex.EncodeToString(at) != "000001a22d31d2760000004d" {
		t.Errorf("time entry %x %v", at, err)
	}
	txn := AppendTxnEntry(nil, AbortedTxn{ProducerID: 1, FirstOffset: 16, LastOffset: 51, LastStableOffset: 2})
	if hex.EncodeToString(txn) != "0000"+"0000000000000001"+"0000000000000010"+"0000000000000033"+"0000000000000002" {
		t.Errorf("txn entry %x", txn)
	}
	if _, err := AppendOffsetEntry(nil, 10, OffsetEntry{Offset: 9}); err == nil {
		t.Error("an offset below the base was accepted")
	}
	if _, err := AppendTimeEntry(nil, 10, TimeEntry{Offset: 11 + math.MaxInt32}); err == nil {
		t.Error("an offset beyond 2^31 was accepted")
	}
}

func TestPreallocateAndTrim(t *testing.T) {
	fs := vfs.NewMem()
	x := newOffset(t, fs, 0, 1005)
	size := func() int64 {
		info, err := fs.Stat("/d/x.index")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	x.Create()
	if err := x.Seal(false); err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Stat("/d/x.index"); !errors.Is(err, iofs.ErrNotExist) {
		t.Fatalf("an index without entries has a file before it must: %v", err)
	}
	if err := x.Append(OffsetEntry{Offset: 10, Position: 100}); err != nil {
		t.Fatal(err)
	}
	if err := x.Flush(); err != nil || size() != 1000 {
		t.Fatalf("%v, %d bytes", err, size())
	}
	for i := range int64(125) {
		if x.Full() {
			t.Fatalf("full at %d", i)
		}
		if err := x.Append(OffsetEntry{Offset: 10 * (i + 1), Position: 100 * (i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if !x.Full() {
		t.Error("125 entries of 8 bytes do not fill 1005 bytes")
	}
	if err := x.Seal(true); err != nil || size() != 1000 || x.Entries() != 125 {
		t.Fatalf("%v, %d bytes, %d entries", err, size(), x.Entries())
	}
	if err := x.TruncateTo(400); err != nil || x.Entries() != 39 || size() != 39*8 {
		t.Fatalf("%v, %d bytes, %d entries", err, size(), x.Entries())
	}
}

// TestOffsetModel compares an index with a list, across reloads.
func TestOffsetModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := vfs.NewMem()
		base := rapid.Int64Range(0, 1<<40).Draw(t, "base")
		x := newOffset(t, fs, base, 1<<20)
		x.Create()
		var list []OffsetEntry
		last := OffsetEntry{Offset: base, Position: 0}
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				for range rapid.IntRange(1, 200).Draw(t, "n") {
					last.Offset += rapid.Int64Range(1, 50).Draw(t, "offset")
					last.Position += rapid.Int64Range(1, 5000).Draw(t, "position")
					list = append(list, last)
					must(x.Append(last))
				}
			},
			"truncate": func(t *rapid.T) {
				to := rapid.Int64Range(base, last.Offset+1).Draw(t, "to")
				must(x.TruncateTo(to))
				for len(list) > 0 && list[len(list)-1].Offset >= to {
					list = list[:len(list)-1]
				}
				last = OffsetEntry{Offset: base}
				if n := len(list); n > 0 {
					last = list[n-1]
				}
			},
			"reload": func(*rapid.T) {
				must(x.Seal(true))
				x = newOffset(t, fs, base, 1<<20)
				must(x.Load())
			},
			"crash": func(*rapid.T) {
				must(x.Flush())
				x = newOffset(t, fs, base, 1<<20)
				must(x.Adopt(math.MaxInt64, math.MaxInt64))
			},
			"": func(t *rapid.T) { compare(t, x, base, list, last) },
		})
	})
}

func compare(t *rapid.T, x *Offset, base int64, list []OffsetEntry, last OffsetEntry) {
	if x.Entries() != len(list) {
		t.Fatalf("%d entries, want %d", x.Entries(), len(list))
	}
	target := rapid.Int64Range(base-2, last.Offset+5).Draw(t, "target")
	want, wantOK := OffsetEntry{Offset: base}, false
	for _, e := range list {
		if e.Offset <= target {
			want, wantOK = e, true
		}
	}
	got, ok, err := x.Lookup(target)
	if err != nil || ok != wantOK || got != want {
		t.Fatalf("lookup %d: %v %v %v, want %v %v", target, got, ok, err, want, wantOK)
	}
	pos := rapid.Int64Range(0, last.Position+5).Draw(t, "position")
	want, wantOK = OffsetEntry{}, false
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Position >= pos {
			want, wantOK = list[i], true
		}
	}
	got, ok, err = x.After(pos)
	if err != nil || ok != wantOK || got != want {
		t.Fatalf("after %d: %v %v %v, want %v %v", pos, got, ok, err, want, wantOK)
	}
}

func TestTimeIndex(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	var x Time
	x.Init(filecache.New(fs, 2), fixed("/d/x.timeindex"), 0, 100, 1<<16)
	x.Create()
	for i := range int64(500) {
		// Every second append brings no newer timestamp and adds nothing.
		if err := x.Append(TimeEntry{TimestampMs: 1000 + i/2, Offset: 100 + i}, false); err != nil {
			t.Fatal(err)
		}
	}
	if x.Entries() != 250 {
		t.Fatalf("%d entries", x.Entries())
	}
	for ts := int64(995); ts < 1260; ts++ {
		e, ok, err := x.Lookup(ts)
		want := TimeEntry{TimestampMs: min(ts, 1249), Offset: 100 + 2*(min(ts, 1249)-1000)}
		if err != nil || ok != (ts >= 1000) || ok && e != want {
			t.Fatalf("lookup %d: %v %v %v", ts, e, ok, err)
		}
	}
	if err := x.TruncateTo(110); err != nil {
		t.Fatal(err)
	}
	if last, ok := x.Last(); !ok || last != (TimeEntry{TimestampMs: 1004, Offset: 108}) {
		t.Fatalf("last %v", last)
	}
}

func TestTxnIndex(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	fresh := func() *Txn {
		x := &Txn{}
		x.Init(filecache.New(fs, 2), fixed("/d/x.txnindex"), 0, 0)
		return x
	}
	x := fresh()
	if err := x.Load(); err != nil {
		t.Fatal(err)
	}
	all := []AbortedTxn{{1, 0, 10, 11}, {2, 5, 20, 12}, {3, 21, 30, 31}}
	for _, e := range all {
		if err := x.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Append(AbortedTxn{4, 1, 30, 31}); err == nil {
		t.Error("a marker that does not grow was accepted")
	}
	x = fresh()
	got, err := x.All()
	if err != nil || !cmp.Equal(all, got) {
		t.Fatal(got, err)
	}
	if got, complete, err := x.Collect(nil, 11, 12); err != nil || !complete || len(got) != 1 || got[0].ProducerID != 2 {
		t.Fatal(got, complete, err)
	}
	if err := x.TruncateTo(20); err != nil {
		t.Fatal(err)
	}
	if last, err := x.LastOffset(); err != nil || last != 10 {
		t.Fatal(last, err)
	}
	if err := x.Reset(); err != nil {
		t.Fatal(err)
	}
	if got, err := fresh().All(); err != nil || len(got) != 0 {
		t.Fatal(got, err)
	}
}

// TestLoadRefuses checks files that cannot be an index.
func TestLoadRefuses(t *testing.T) {
	fs := vfs.NewMem()
	x := newOffset(t, fs, 0, 800)
	f, err := fs.Create("/d/x.index")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 13), 0); err != nil {
		t.Fatal(err)
	}
	if err := x.Load(); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if err := fs.Remove(filepath.Join("/d", "x.index")); err != nil {
		t.Fatal(err)
	}
	if err := newOffset(t, fs, 0, 800).Load(); err == nil {
		t.Fatal("a missing file loads")
	}
}

func FuzzOffsetIndex(f *testing.F) {
	f.Add([]byte{0, 0, 0, 9, 0, 0, 0, 70, 0, 0, 0, 0, 0, 0, 0, 0}, int64(0))
	f.Add(bytes.Repeat([]byte{0xff}, 24), int64(5))
	f.Fuzz(func(t *testing.T, b []byte, base int64) {
		es, err := DecodeOffsetEntries(b, base)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		var again []byte
		for i, e := range es {
			if i > 0 && (e.Offset <= es[i-1].Offset || e.Position <= es[i-1].Position) {
				t.Fatalf("entry %d does not grow: %v", i, es)
			}
			if again, err = AppendOffsetEntry(again, base, e); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(b, again) {
			t.Fatalf("decoded %v, encoded %x from %x", es, again, b)
		}
	})
}

func FuzzTimeIndex(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 3}, int64(0))
	f.Fuzz(func(t *testing.T, b []byte, base int64) {
		es, err := DecodeTimeEntries(b, base)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		var again []byte
		for _, e := range es {
			if again, err = AppendTimeEntry(again, base, e); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(b, again) {
			t.Fatalf("decoded %v, encoded %x from %x", es, again, b)
		}
	})
}

func FuzzTxnIndex(f *testing.F) {
	f.Add(AppendTxnEntry(AppendTxnEntry(nil, AbortedTxn{1, 2, 3, 4}), AbortedTxn{5, 1, 9, 10}), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, base int64) {
		es, err := DecodeTxnEntries(b, base)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		var again []byte
		for _, e := range es {
			again = AppendTxnEntry(again, e)
		}
		if !bytes.HasPrefix(b, again) {
			t.Fatalf("decoded %v, encoded %x from %x", es, again, b)
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/d"); err != nil {
		b.Fatal(err)
	}
	x := &Offset{}
	x.Init(filecache.New(fs, 2), fixed("/d/x.index"), 0, 0, 10<<20)
	x.Create()
	for i := range int64(260_000) {
		if err := x.Append(OffsetEntry{Offset: 40 * (i + 1), Position: 4100 * (i + 1)}); err != nil {
			b.Fatal(err)
		}
	}
	for name, at := range map[string]int64{"tail": 40*260_000 - 3, "middle": 40 * 77_777} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, ok, err := x.Lookup(at); !ok || err != nil {
					b.Fatal(fmt.Sprint(ok, err))
				}
			}
		})
	}
}
