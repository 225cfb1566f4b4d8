package dispatch

// Order is an order mode.
type Order int8

// Order modes.
const (
	ByKey Order = iota
	ByPartition
	None
)

// Task is a record with its place in a lane.
type Task[T any] struct {
	Value T
	lane  *lane[T]
}

type lane[T any] struct {
	key     string
	null    bool
	held    bool // one of its tasks was handed out and is not done
	waiting fifo[*Task[T]]
}

// Queue holds the tasks of one assignment that are not running.
type Queue[T any] struct {
	order Order
	lanes map[string]*lane[T]
	null  *lane[T]
	// again holds tasks that come back after a wait: their lanes are held already.
	again fifo[*Task[T]]
	// ready holds lanes that are free and not empty.
	ready fifo[*lane[T]]
	// free holds tasks of no lane (order None).
	free fifo[*Task[T]]
	n    int
}

// New returns an empty queue.
func New[T any](order Order) *Queue[T] {
	return &Queue[T]{order: order, lanes: map[string]*lane[T]{}}
}

// Push adds a record in delivery order. A nil key is no key.
func (q *Queue[T]) Push(key []byte, value T) {
	q.n++
	t := &Task[T]{Value: value}
	switch {
	case q.order == None:
		q.free.push(t)
		return
	case q.order == ByPartition || key == nil:
		if q.null == nil {
			q.null = &lane[T]{null: true}
		}
		t.lane = q.null
	default:
		l := q.lanes[string(key)]
		if l == nil {
			l = &lane[T]{key: string(key)}
			q.lanes[l.key] = l
		}
		t.lane = l
	}
	t.lane.waiting.push(t)
	if !t.lane.held && t.lane.waiting.len() == 1 {
		q.ready.push(t.lane)
	}
}

// Next hands out a task that may run now, nil when there is none. Tasks that
// come back after a wait go first.
func (q *Queue[T]) Next() *Task[T] {
	if t, ok := q.again.pop(); ok {
		q.n--
		return t
	}
	if t, ok := q.free.pop(); ok {
		q.n--
		return t
	}
	l, ok := q.ready.pop()
	if !ok {
		return nil
	}
	l.held = true
	t, _ := l.waiting.pop()
	q.n--
	return t
}

// Runnable reports whether Next would hand out a task.
func (q *Queue[T]) Runnable() bool { return q.again.len()+q.free.len()+q.ready.len() > 0 }

// Len counts tasks that are not handed out.
func (q *Queue[T]) Len() int { return q.n }

// Done frees the lane of a task that was handed out.
func (q *Queue[T]) Done(t *Task[T]) {
	l := t.lane
	if l == nil {
		return
	}
	l.held = false
	switch {
	case l.waiting.len() > 0:
		q.ready.push(l)
	case !l.null:
		delete(q.lanes, l.key) // as many lanes as keys outstanding, not as keys ever seen
	}
}

// Again brings back a task that was handed out and waited; its lane stayed held.
func (q *Queue[T]) Again(t *Task[T]) {
	q.n++
	q.again.push(t)
}

// fifo is a slice queue that gives its memory back as it empties.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(v T) { f.items = append(f.items, v) }

func (f *fifo[T]) pop() (v T, ok bool) {
	if f.head == len(f.items) {
		return v, false
	}
	var zero T
	v, f.items[f.head] = f.items[f.head], zero
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	} else if f.head >= 64 && f.head*2 >= len(f.items) {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	return v, true
}
