package image

import (
	"iter"
	"maps"
	"slices"
)

// Names of the features that Kafka 4.3 finalizes.
const (
	FeatureMetadataVersion        = "metadata.version"
	FeatureKRaftVersion           = "kraft.version"
	FeatureTransactionVersion     = "transaction.version"
	FeatureGroupVersion           = "group.version"
	FeatureEligibleLeaderReplicas = "eligible.leader.replicas.version"
	FeatureShareVersion           = "share.version"
	FeatureStreamsVersion         = "streams.version"
)

// Features are the finalized feature levels (KIP-584).
type Features struct{ levels map[string]int16 }

// Level returns a feature's finalized level, 0 when it is not finalized.
func (f Features) Level(name string) int16 { return f.levels[name] }

// Has reports whether a feature is finalized.
func (f Features) Has(name string) bool { _, ok := f.levels[name]; return ok }

// MetadataVersion is the level of metadata.version; 0 before the first record.
func (f Features) MetadataVersion() int16 { return f.levels[FeatureMetadataVersion] }

// ELREnabled reports whether eligible leader replicas are kept (KIP-966).
func (f Features) ELREnabled() bool { return f.levels[FeatureEligibleLeaderReplicas] >= 1 }

// All yields the finalized features sorted by name.
func (f Features) All() iter.Seq2[string, int16] {
	return func(yield func(string, int16) bool) {
		for _, name := range slices.Sorted(maps.Keys(f.levels)) {
			if !yield(name, f.levels[name]) {
				return
			}
		}
	}
}

// with returns f with one level changed; level 0 removes the feature.
func (f Features) with(name string, level int16) Features {
	next := maps.Clone(f.levels)
	if next == nil {
		next = map[string]int16{}
	}
	if level == 0 {
		delete(next, name)
	} else {
		next[name] = level
	}
	return Features{levels: next}
}
