// Package survey reads where consumer groups stand, over the Kafka protocol
// alone.
//
// Purpose: it describes a group, fetches its commits with their metadata (the
// beacons), lists the ends of the logs, and reads the timestamps of the records
// at the boundaries, and gives a line.Reading per partition.
// Invariants: committed is read before the ends; a reading that failed is absent
// and named in Problems, and never spoils the readings of other partitions;
// partitions of stopped groups, and assigned ones without a commit, are there
// too; it writes nothing and joins no group.
// Locks: the cache of record timestamps has one; a Surveyor may be used by
// several goroutines.
// Callers: internal/cli/{lines,why,exporter}.
package survey
