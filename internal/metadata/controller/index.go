package controller

import (
	"bytes"
	"iter"

	"github.com/tidwall/btree"

	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// partKey names a partition.
type partKey struct {
	topic types.UUID
	id    int32
}

func lessPartKey(a, b partKey) bool {
	if c := bytes.Compare(a.topic[:], b.topic[:]); c != 0 {
		return c < 0
	}
	return a.id < b.id
}

// keySet is an ordered set of partitions: iteration order is part of what the
// controller writes, so it must not depend on hashing.
type keySet = btree.BTreeG[partKey]

func newKeySet() *keySet {
	return btree.NewBTreeGOptions(lessPartKey, btree.Options{NoLocks: true, Degree: 16})
}

// partitionIndex answers "which partitions" without reading all of them
// (BrokersToIsrs, BrokersToElrs, directoriesToPartitions, imbalancedPartitions
// and reassigningTopics of ReplicationControlManager).
//
// Invariant: it is a function of the partitions in the image.
type partitionIndex struct {
	isr    map[int32]*keySet // by broker in the ISR
	elr    map[int32]*keySet // by broker in the ELR
	leader map[int32]*keySet // by leader; NoLeader for leaderless ones
	dirs   map[types.UUID]*keySet

	imbalanced  *keySet // not led by the preferred replica
	reassigning *keySet
}

func newPartitionIndex() *partitionIndex {
	return &partitionIndex{
		isr: map[int32]*keySet{}, elr: map[int32]*keySet{}, leader: map[int32]*keySet{},
		dirs: map[types.UUID]*keySet{}, imbalanced: newKeySet(), reassigning: newKeySet(),
	}
}

// update moves a partition from its old state to its new one; nil is "none".
func (ix *partitionIndex) update(k partKey, prev, next *image.Partition) {
	if prev == next {
		return
	}
	if prev != nil {
		for _, id := range prev.ISR {
			removeKey(ix.isr, id, k)
		}
		for _, id := range prev.ELR {
			removeKey(ix.elr, id, k)
		}
		for _, dir := range prev.Directories {
			removeKey(ix.dirs, dir, k)
		}
		removeKey(ix.leader, prev.Leader, k)
		ix.imbalanced.Delete(k)
		ix.reassigning.Delete(k)
	}
	if next == nil {
		return
	}
	for _, id := range next.ISR {
		addKey(ix.isr, id, k)
	}
	for _, id := range next.ELR {
		addKey(ix.elr, id, k)
	}
	for _, dir := range next.Directories {
		if !dir.Reserved() {
			addKey(ix.dirs, dir, k)
		}
	}
	addKey(ix.leader, next.Leader, k)
	if next.Leader != next.PreferredReplica() {
		ix.imbalanced.Set(k)
	}
	if next.Reassigning() {
		ix.reassigning.Set(k)
	}
}

func addKey[K comparable](m map[K]*keySet, id K, k partKey) {
	s := m[id]
	if s == nil {
		s = newKeySet()
		m[id] = s
	}
	s.Set(k)
}

func removeKey[K comparable](m map[K]*keySet, id K, k partKey) {
	s := m[id]
	if s == nil {
		return
	}
	s.Delete(k)
	if s.Len() == 0 {
		delete(m, id)
	}
}

// keys yields a set's partitions in order; a nil set is empty.
func keys(s *keySet) iter.Seq[partKey] {
	return func(yield func(partKey) bool) {
		if s != nil {
			s.Scan(yield)
		}
	}
}

func (ix *partitionIndex) hasLeaderships(broker int32) bool { return ix.leader[broker] != nil }

func (ix *partitionIndex) leaderless() *keySet { return ix.leader[recordschema.NoLeader] }
