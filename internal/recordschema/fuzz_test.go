package recordschema

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// seedFrames adds what Kafka wrote as the corpus.
func seedFrames(f *testing.F, control bool) {
	f.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "kafka-4.3.1", "*.[cl]*"))
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, b := range readBatches(f, data) {
			for _, r := range b.records {
				switch {
				case b.control && control:
					f.Add(r.key, r.value)
				case !b.control && !control:
					f.Add(r.value)
				}
			}
		}
	}
}

func known(err error) bool {
	return errors.Is(err, ErrMalformed) || errors.Is(err, ErrUnknownRecord) || errors.Is(err, ErrUnsupportedVersion)
}

// FuzzParseFrame: any bytes give a record or a known error; a record written
// back and read again is the same bytes, at its own version and at every other.
func FuzzParseFrame(f *testing.F) {
	seedFrames(f, false)
	f.Add([]byte{1, 3, 2})
	f.Add([]byte{1, 6, 0})
	f.Add([]byte{1, 4, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, version, err := ParseFrameVersion(b)
		if err != nil {
			if !known(err) {
				t.Fatalf("unknown kind of error: %v", err)
			}
			return
		}
		once, err := AppendFrameVersion(nil, r, version)
		if err != nil {
			t.Fatal(err)
		}
		for v := int16(0); v <= NewestVersion(r.Key()); v++ {
			older, err := AppendFrameVersion(nil, r, v)
			if err != nil {
				t.Fatal(err)
			}
			back, err := ParseFrame(older)
			if err != nil {
				t.Fatalf("version %d of what was read cannot be read: %v", v, err)
			}
			if again, _ := AppendFrameVersion(nil, back, v); !bytes.Equal(again, older) {
				t.Fatalf("version %d: %x became %x", v, older, again)
			}
			if v == version && !bytes.Equal(older, once) {
				t.Fatalf("not deterministic: %x, %x", older, once)
			}
		}
	})
}

// FuzzParseControlRecord: any key and value give a record or a known error, and
// records survive a round trip.
func FuzzParseControlRecord(f *testing.F) {
	seedFrames(f, true)
	f.Fuzz(func(t *testing.T, key, value []byte) {
		r, err := ParseControlRecord(key, value)
		if err != nil {
			if !known(err) {
				t.Fatalf("unknown kind of error: %v", err)
			}
			return
		}
		once := AppendControlValue(nil, r)
		back, err := ParseControlRecord(AppendControlKey(nil, r.Type()), once)
		if err != nil {
			t.Fatal(err)
		}
		if again := AppendControlValue(nil, back); !bytes.Equal(again, once) {
			t.Fatalf("%x became %x", once, again)
		}
	})
}

// FuzzParseQuorumState: any bytes give a state or a known error, and states
// survive a round trip.
func FuzzParseQuorumState(f *testing.F) {
	f.Add([]byte(`{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}`))
	f.Add([]byte(`{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}`))
	f.Add([]byte(`{"data_version":7}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseQuorumState(b)
		if err != nil {
			if !known(err) {
				t.Fatalf("unknown kind of error: %v", err)
			}
			return
		}
		once, err := AppendQuorumState(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseQuorumState(once)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := AppendQuorumState(nil, back); !bytes.Equal(again, once) {
			t.Fatalf("%s became %s", once, again)
		}
	})
}
