package handlers

// byTopic finds the answer's entry of a topic. Kafka builds many answers from
// partitions: a topic that is named twice has one entry, and one without
// partitions has none.
type byTopic[T any] map[string]int

// at returns the entry of topic in list, appending an empty one if it is new.
// The pointer is good until the next call.
func (m byTopic[T]) at(list *[]T, topic string) *T {
	i, ok := m[topic]
	if !ok {
		i = len(*list)
		m[topic] = i
		var empty T
		*list = append(*list, empty)
	}
	return &(*list)[i]
}
