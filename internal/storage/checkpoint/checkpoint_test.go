package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

const golden = "testdata/kafka-4.3.1"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func goldenFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(golden, name))
	must(t, err)
	return b
}

// Files that Apache Kafka 4.3.1 wrote parse, and the same content written by
// us differs at most in the order of lines, which Kafka takes from a hash map.
func TestGoldenOffsets(t *testing.T) {
	for _, name := range []string{checkpoint.RecoveryPointFile, checkpoint.LogStartFile, checkpoint.HighWatermarkFile, checkpoint.CleanerFile} {
		t.Run(name, func(t *testing.T) {
			raw := goldenFile(t, name)
			m, err := checkpoint.ReadOffsets(vfs.OS(), filepath.Join(golden, name))
			must(t, err)
			if len(raw) == 0 {
				if len(m) != 0 {
					t.Fatalf("an empty file gave %v", m)
				}
				return
			}
			want := strings.SplitAfterN(string(raw), "\n", 3)
			got := strings.SplitAfterN(string(checkpoint.EncodeOffsets(m)), "\n", 3)
			if diff := cmp.Diff(want[:2], got[:2]); diff != "" {
				t.Errorf("head (-Kafka +ours):\n%s", diff)
			}
			if diff := cmp.Diff(sorted(want[2]), sorted(got[2])); diff != "" {
				t.Errorf("entries (-Kafka +ours):\n%s", diff)
			}
		})
	}
	m, err := checkpoint.ReadOffsets(vfs.OS(), filepath.Join(golden, checkpoint.LogStartFile))
	must(t, err)
	if diff := cmp.Diff(map[types.TopicPartition]int64{{Topic: "idle"}: 1}, m); diff != "" {
		t.Error(diff)
	}
	if got := checkpoint.EncodeOffsets(m); !bytes.Equal(got, goldenFile(t, checkpoint.LogStartFile)) {
		t.Errorf("one entry is not byte for byte Kafka's: %q", got)
	}
}

func sorted(lines string) map[string]bool {
	out := map[string]bool{}
	for l := range strings.Lines(lines) {
		out[l] = true
	}
	return out
}

func TestGoldenLeaderEpochs(t *testing.T) {
	entries, err := checkpoint.ReadLeaderEpochs(vfs.OS(), filepath.Join(golden, checkpoint.LeaderEpochFile))
	must(t, err)
	if diff := cmp.Diff([]checkpoint.EpochEntry{{Epoch: 2, StartOffset: 1}, {Epoch: 4, StartOffset: 2}}, entries); diff != "" {
		t.Error(diff)
	}
	if got := checkpoint.EncodeLeaderEpochs(entries); !bytes.Equal(got, goldenFile(t, checkpoint.LeaderEpochFile)) {
		t.Errorf("not byte for byte Kafka's: %q", got)
	}
}

func TestDecodeOffsets(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want map[types.TopicPartition]int64
		err  string
	}{
		"missing content":          {"", map[types.TopicPartition]int64{}, ""},
		"only a version":           {"0\n", map[types.TopicPartition]int64{}, ""},
		"none":                     {"0\n0\n", map[types.TopicPartition]int64{}, ""},
		"no last line end":         {"0\n1\nt 3 17", map[types.TopicPartition]int64{{Topic: "t", Partition: 3}: 17}, ""},
		"windows line ends":        {"0\r\n1\r\nt 3 17\r\n", map[types.TopicPartition]int64{{Topic: "t", Partition: 3}: 17}, ""},
		"wide spaces":              {"0\n1\nt\t3   17\n", map[types.TopicPartition]int64{{Topic: "t", Partition: 3}: 17}, ""},
		"the last of two wins":     {"0\n2\nt 0 1\nt 0 2\n", map[types.TopicPartition]int64{{Topic: "t"}: 2}, ""},
		"another version":          {"1\n0\n", nil, "version 1, expected 0"},
		"no version":               {"x\n0\n", nil, `line 1: "x" is not a version`},
		"no count":                 {"0\nmany\n", nil, `line 2: "many" is not a number of entries`},
		"negative count":           {"0\n-1\n", nil, `line 2: "-1"`},
		"huge count":               {"0\n2147483647\nt 0 1\n", nil, "2147483647 entries announced, 1 found"},
		"cut short":                {"0\n2\nt 0 1\n", nil, "2 entries announced, 1 found"},
		"too many":                 {"0\n1\nt 0 1\nt 1 1\n", nil, "1 entries announced, 2 found"},
		"two fields":               {"0\n1\nt 0\n", nil, `line 3: "t 0" is not`},
		"bad partition":            {"0\n1\nt x 1\n", nil, `"x" is not a partition number`},
		"negative partition":       {"0\n1\nt -1 1\n", nil, `"-1" is not a partition number`},
		"bad offset":               {"0\n1\nt 0 9223372036854775808\n", nil, "is not an offset"},
		"negative offset":          {"0\n1\nt 0 -1\n", nil, `"-1" is not an offset`},
		"zeros, as a crash leaves": {"\x00\x00\x00\x00", nil, "is not a version"},
		"not text":                 {"0\n1\n\xff 0 1\n", nil, "not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			m := vfs.NewMem()
			must(t, checkpoint.WriteFile(m, "/f", []byte(c.in)))
			got, err := checkpoint.ReadOffsets(m, "/f")
			if c.err == "" {
				must(t, err)
			} else if !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "/f") {
				t.Errorf("error %v, want ErrCorrupt with the path and %q", err, c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeLeaderEpochs(t *testing.T) {
	for in, want := range map[string]string{
		"0\n1\n1 2 3\n": "is not \"epoch offset\"",
		"0\n1\n-1 2\n":  "is not a leader epoch",
		"0\n1\n1 -2\n":  "is not an offset",
		"0\n1\nx 2\n":   "is not a leader epoch",
		"5\n0\n":        "version 5, expected 0",
	} {
		if _, err := checkpoint.DecodeLeaderEpochs([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func TestMissingFileIsEmpty(t *testing.T) {
	m := vfs.NewMem()
	offsets, err := checkpoint.ReadOffsets(m, "/no")
	if err != nil || offsets == nil || len(offsets) != 0 {
		t.Errorf("%v, %v", offsets, err)
	}
	entries, err := checkpoint.ReadLeaderEpochs(m, "/no")
	if err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
	_, err = checkpoint.ReadFile(m, "/no", 10)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	must(t, checkpoint.WriteFile(m, "/big", make([]byte, 11)))
	if _, err := checkpoint.ReadFile(m, "/big", 10); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("too large: %v", err)
	}
}

func TestOffsetsRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tp := rapid.Custom(func(rt *rapid.T) types.TopicPartition {
			return types.TopicPartition{
				Topic:     rapid.StringMatching(`[a-zA-Z0-9._-]{1,20}`).Draw(rt, "topic"),
				Partition: rapid.Int32Min(0).Draw(rt, "partition"),
			}
		})
		want := rapid.MapOf(tp, rapid.Int64Min(0)).Draw(rt, "offsets")
		m := vfs.NewMem()
		if err := checkpoint.WriteOffsets(m, "/f", want); err != nil {
			rt.Fatal(err)
		}
		got, err := checkpoint.ReadOffsets(m, "/f")
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// D16, D19: after a power cut at any moment the file is whole, and as new as
// the last write that was acknowledged.
func TestD19_WriteFileIsAtomic(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("/d"))
	must(t, mem.SyncDir("/"))
	versions := []string{"<missing>", strings.Repeat("one ", 300), "two", strings.Repeat("three ", 500)}
	crashes := 0
	err := errfs.EachCrash(mem, func(fsys vfs.FS, acked func()) error {
		for _, v := range versions[1:] {
			if err := checkpoint.WriteFile(fsys, "/d/f", []byte(v)); err != nil {
				return err
			}
			acked()
		}
		return nil
	}, func(c errfs.Crash) {
		crashes++
		got := "<missing>"
		if b, err := checkpoint.ReadFile(c.Left, "/d/f", 1<<20); err == nil {
			got = string(b)
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		next := versions[min(c.Acked+1, len(versions)-1)]
		if got != versions[c.Acked] && got != next {
			t.Errorf("after %v (%d%%, seed %d) with %d writes acknowledged: %.30q", c.After.Kind, c.Percent, c.Seed, c.Acked, got)
		}
		must(t, checkpoint.WriteFile(c.Left, "/d/f", []byte("after"))) // leftovers do not disturb
	})
	must(t, err)
	if crashes != 3*5*6 {
		t.Errorf("%d crashes tried; did WriteFile change its operations?", crashes)
	}
}

// D20: an error at operation i, for all i, is an error of WriteFile, and the
// old content stays readable. A full disk (D8) is the same.
func TestD20_WriteFileErrors(t *testing.T) {
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
		for i := int64(0); ; i++ {
			mem := vfs.NewMem()
			must(t, checkpoint.WriteFile(mem, "/f", []byte("old")))
			fsys := errfs.Wrap(mem, errfs.Hooks{Before: errfs.FailNth(i, cause, nil)})
			err := checkpoint.WriteFile(fsys, "/f", []byte("new"))
			if err == nil {
				if i < 6 {
					t.Fatalf("only %d operations", i)
				}
				break
			}
			if !errors.Is(err, cause) || !strings.Contains(err.Error(), "/f") {
				t.Errorf("operation %d: %v", i, err)
			}
			got, err := checkpoint.ReadFile(mem, "/f", 10)
			must(t, err)
			if s := string(got); s != "old" && s != "new" {
				t.Errorf("operation %d left %q", i, s)
			}
		}
	}
}

func TestD20_ReadErrors(t *testing.T) {
	for i := int64(0); ; i++ {
		mem := vfs.NewMem()
		must(t, checkpoint.WriteOffsets(mem, "/f", map[types.TopicPartition]int64{{Topic: "t"}: 1}))
		fsys := errfs.Wrap(mem, errfs.Hooks{Before: errfs.FailNth(i, syscall.EIO, nil)})
		_, err := checkpoint.ReadOffsets(fsys, "/f")
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.EIO) || errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("operation %d: %v: an unreadable file is not a corrupt one", i, err)
		}
	}
}

func FuzzDecodeOffsets(f *testing.F) {
	f.Add([]byte("0\n2\nt 0 1\nu-v.w 12 99\n"))
	f.Add([]byte("0\r\n1\r\nt\t3   17"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := checkpoint.DecodeOffsets(data)
		if err != nil {
			return
		}
		again, err := checkpoint.DecodeOffsets(checkpoint.EncodeOffsets(m))
		if err != nil || cmp.Diff(m, again) != "" {
			t.Fatalf("%q does not survive a round trip: %v", data, err)
		}
	})
}

func FuzzDecodeLeaderEpochs(f *testing.F) {
	f.Add([]byte("0\n2\n2 1\n4 2\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := checkpoint.DecodeLeaderEpochs(data)
		if err != nil {
			return
		}
		again, err := checkpoint.DecodeLeaderEpochs(checkpoint.EncodeLeaderEpochs(e))
		if err != nil || fmt.Sprint(e) != fmt.Sprint(again) {
			t.Fatalf("%q does not survive a round trip: %v", data, err)
		}
	})
}
