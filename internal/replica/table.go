package replica

import (
	"slices"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// table is an immutable index of the partitions here; changes copy the parts
// they touch and publish a new one, so that lookups take no lock.
type table struct {
	byName map[string]*hosted
}

// hosted is the partitions of one topic that this broker holds.
type hosted struct {
	id    types.UUID
	name  string
	parts []*Partition // index = partition id; nil: not here
}

func (t *table) get(topic string, id int32) *Partition {
	h := t.byName[topic]
	if h == nil || id < 0 || int(id) >= len(h.parts) {
		return nil
	}
	return h.parts[id]
}

// all lists every partition, in no order.
func (t *table) all() []*Partition {
	var out []*Partition
	for _, h := range t.byName {
		for _, p := range h.parts {
			if p != nil {
				out = append(out, p)
			}
		}
	}
	return out
}

// tableEdit collects changes to a table; one copy a topic, one of the index.
type tableEdit struct {
	next    map[string]*hosted
	changed map[string]bool
}

func editTable(t *table) *tableEdit {
	e := &tableEdit{next: make(map[string]*hosted, len(t.byName)), changed: map[string]bool{}}
	for name, h := range t.byName {
		e.next[name] = h
	}
	return e
}

func (e *tableEdit) own(name string) *hosted {
	h := e.next[name]
	if e.changed[name] {
		return h
	}
	e.changed[name] = true
	fresh := &hosted{name: name}
	if h != nil {
		fresh.id, fresh.parts = h.id, slices.Clone(h.parts)
	}
	e.next[name] = fresh
	return fresh
}

func (e *tableEdit) get(tp types.TopicIDPartition) *Partition {
	h := e.next[tp.Topic]
	if h == nil || h.id != tp.TopicID || int(tp.Partition) >= len(h.parts) {
		return nil
	}
	return h.parts[tp.Partition]
}

func (e *tableEdit) put(p *Partition) {
	h := e.own(p.tp.Topic)
	if h.id != p.tp.TopicID {
		h.id, h.parts = p.tp.TopicID, nil
	}
	for len(h.parts) <= int(p.tp.Partition) {
		h.parts = append(h.parts, nil)
	}
	h.parts[p.tp.Partition] = p
}

// remove drops a partition; one of a newer topic with the same name stays.
func (e *tableEdit) remove(tp types.TopicIDPartition) {
	if e.get(tp) == nil {
		return
	}
	h := e.own(tp.Topic)
	h.parts[tp.Partition] = nil
	if !slices.ContainsFunc(h.parts, func(p *Partition) bool { return p != nil }) {
		delete(e.next, tp.Topic)
		delete(e.changed, tp.Topic)
	}
}

func (e *tableEdit) table() *table { return &table{byName: e.next} }

// lookup finds a partition by name, and checks its id where the request has
// one. mismatch is what another id answers.
func (m *Manager) lookup(tp types.TopicIDPartition, mismatch kerrors.Code) (*Partition, kerrors.Code) {
	t := m.table.Load()
	h := t.byName[tp.Topic]
	if h == nil {
		return nil, m.absent(tp)
	}
	if !tp.TopicID.IsZero() && h.id != tp.TopicID {
		return nil, mismatch
	}
	p := t.get(tp.Topic, tp.Partition)
	if p == nil {
		return nil, m.absent(tp)
	}
	return p, kerrors.None
}

// absent says why a partition is not here: the cluster does not have it, or
// another broker does.
func (m *Manager) absent(tp types.TopicIDPartition) kerrors.Code {
	im := m.image.Load()
	topic, ok := im.Topics.ByName(tp.Topic)
	if !ok || (!tp.TopicID.IsZero() && topic.ID != tp.TopicID) {
		if !tp.TopicID.IsZero() {
			return kerrors.UnknownTopicID
		}
		return kerrors.UnknownTopicOrPartition
	}
	if tp.Partition < 0 || int(tp.Partition) >= len(topic.Partitions) {
		return kerrors.UnknownTopicOrPartition
	}
	return kerrors.NotLeaderOrFollower
}
