package config

import "fmt"

// Durability says what an acknowledgement promises (design decision D9). Our
// own setting `durability`, for a cluster or one topic.
type Durability int8

// Durability levels. The zero value is the safest one.
const (
	// Strict: acknowledged means fsynced on the leader (and on every in-sync
	// replica that the high watermark counts).
	Strict Durability = iota
	// Replicated: acknowledged means in the page cache of all in-sync
	// replicas, as Apache Kafka does; the dirty window is bounded.
	Replicated
	// Relaxed: as Replicated, without a bound on the dirty window other than
	// flush.messages and flush.ms.
	Relaxed
)

// String returns the value as written in configuration.
func (d Durability) String() string {
	switch d {
	case Strict:
		return "strict"
	case Replicated:
		return "replicated"
	case Relaxed:
		return "relaxed"
	}
	return fmt.Sprintf("durability(%d)", int8(d))
}

// ParseDurability reads what String wrote.
func ParseDurability(s string) (Durability, error) {
	switch s {
	case "strict":
		return Strict, nil
	case "replicated":
		return Replicated, nil
	case "relaxed":
		return Relaxed, nil
	}
	return Strict, fmt.Errorf("must be strict, replicated or relaxed")
}
