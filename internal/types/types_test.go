package types

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
)

func TestUUIDRoundTrip(t *testing.T) {
	for range 1000 {
		u, err := NewUUID(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseUUID(u.String())
		if err != nil || got != u {
			t.Fatalf("ParseUUID(%q) = %v, %v", u, got, err)
		}
		if strings.HasPrefix(u.String(), "-") {
			t.Fatalf("%q would be read as a flag", u)
		}
	}
}

func TestUUIDRejects(t *testing.T) {
	for _, s := range []string{"", "x", "AAAAAAAAAAAAAAAAAAAAAA!", strings.Repeat("A", 24)} {
		if u, err := ParseUUID(s); err == nil {
			t.Errorf("ParseUUID(%q) = %v, want an error", s, u)
		}
	}
	if _, err := NewUUID(bytes.NewReader(make([]byte, 1600))); err != nil {
		t.Errorf("version bits keep an all-zero draw from being reserved: %v", err)
	}
	if _, err := NewUUID(bytes.NewReader(nil)); err == nil {
		t.Error("an empty source gave an id")
	}
}

func TestReservedUUIDs(t *testing.T) {
	for _, u := range []UUID{ZeroUUID, MetadataTopicID, LostDir} {
		if !u.Reserved() {
			t.Errorf("%v is not reserved", u)
		}
	}
	if got := MetadataTopicID.String(); got != "AAAAAAAAAAAAAAAAAAAAAQ" {
		t.Errorf("metadata topic id prints %s", got)
	}
}
