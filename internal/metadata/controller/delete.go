package controller

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// DeleteTopics deletes topics by name (v1-v6) or id (v6, KIP-516), with the
// checks of ControllerApis.deleteTopics: each topic is named once, in one way.
// The caller has authorized and checked delete.topic.enable.
func (c *Core) DeleteTopics(req *kmsg.DeleteTopicsRequest) Result[*kmsg.DeleteTopicsResponse] {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	resp.Version = req.Version
	d := &topicDeleter{c: c, resp: resp, names: map[string]int{}, ids: map[types.UUID]int{}}
	d.collect(req)
	d.resolve()
	return Result[*kmsg.DeleteTopicsResponse]{Records: d.records, Response: resp, Atomic: true}
}

type topicDeleter struct {
	c       *Core
	resp    *kmsg.DeleteTopicsResponse
	records []recordschema.MetadataRecord

	// How often each name and id was given, and the order they came in.
	names     map[string]int
	nameOrder []string
	ids       map[types.UUID]int
	idOrder   []types.UUID
}

func (d *topicDeleter) answer(name *string, id types.UUID, code kerrors.Code, message string) {
	t := kmsg.NewDeleteTopicsResponseTopic()
	t.Topic, t.TopicID, t.ErrorCode = name, id, int16(code)
	if message != "" {
		t.ErrorMessage = &message
	}
	d.resp.Topics = append(d.resp.Topics, t)
}

func (d *topicDeleter) addName(name string) {
	if d.names[name]++; d.names[name] == 1 {
		d.nameOrder = append(d.nameOrder, name)
	}
}

func (d *topicDeleter) collect(req *kmsg.DeleteTopicsRequest) {
	for _, name := range req.TopicNames {
		d.addName(name)
	}
	for _, t := range req.Topics {
		id := types.UUID(t.TopicID)
		switch {
		case t.Topic == nil && id.IsZero():
			d.answer(nil, id, kerrors.InvalidRequest, "Neither topic name nor id were specified.")
		case t.Topic == nil:
			if d.ids[id]++; d.ids[id] == 1 {
				d.idOrder = append(d.idOrder, id)
			}
		case id.IsZero():
			d.addName(*t.Topic)
		default:
			d.answer(t.Topic, id, kerrors.InvalidRequest, "You may not specify both topic name and topic id.")
		}
	}
	for _, name := range d.nameOrder {
		if d.names[name] > 1 {
			d.answer(&name, types.UUID{}, kerrors.InvalidRequest, "Duplicate topic name.")
		}
	}
	for _, id := range d.idOrder {
		if d.ids[id] > 1 {
			d.answer(nil, id, kerrors.InvalidRequest, "Duplicate topic id.")
		}
	}
}

func (d *topicDeleter) resolve() {
	var victims []*image.Topic
	byID := map[types.UUID]bool{}
	for _, id := range d.idOrder {
		if d.ids[id] > 1 {
			continue
		}
		t, ok := d.c.now().Topics.ByID(id)
		if !ok {
			d.answer(nil, id, kerrors.UnknownTopicID, kerrors.UnknownTopicID.Description())
			continue
		}
		byID[id] = true
		victims = append(victims, t)
	}
	for _, name := range d.nameOrder {
		if d.names[name] > 1 {
			continue
		}
		t, ok := d.c.now().Topics.ByName(name)
		switch {
		case !ok:
			d.answer(&name, types.UUID{}, kerrors.UnknownTopicOrPartition, kerrors.UnknownTopicOrPartition.Description())
		case byID[t.ID] || d.ids[t.ID] > 1:
			// Named twice in two ways: neither counts.
			d.answer(&name, t.ID, kerrors.InvalidRequest, "The provided topic name maps to an ID that was already supplied.")
			victims = dropTopic(victims, t.ID)
		default:
			victims = append(victims, t)
		}
	}
	for _, t := range victims {
		d.records = append(d.records, &recordschema.RemoveTopicRecord{TopicID: t.ID})
		d.answer(&t.Name, t.ID, kerrors.None, "")
	}
}

func dropTopic(topics []*image.Topic, id types.UUID) []*image.Topic {
	var out []*image.Topic
	for _, t := range topics {
		if t.ID != id {
			out = append(out, t)
		}
	}
	return out
}
