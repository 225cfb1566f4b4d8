package network

import (
	"time"

	"github.com/tidemark-io/tidemark/internal/telemetry"
)

// maxBatch bounds the responses one write takes together.
const maxBatch = 64

// requestQueue is the unanswered and unwritten requests of a connection, oldest
// first: a ring that grows to the in-flight bound and no further.
type requestQueue struct {
	ring []*Request
	head int
	n    int
}

func (q *requestQueue) push(r *Request) {
	if q.n == len(q.ring) {
		bigger := make([]*Request, max(4, 2*len(q.ring)))
		for i := range q.n {
			bigger[i] = q.ring[(q.head+i)%len(q.ring)]
		}
		q.ring, q.head = bigger, 0
	}
	q.ring[(q.head+q.n)%len(q.ring)] = r
	q.n++
}

func (q *requestQueue) front() *Request {
	if q.n == 0 {
		return nil
	}
	return q.ring[q.head]
}

func (q *requestQueue) pop() {
	q.ring[q.head] = nil
	q.head = (q.head + 1) % len(q.ring)
	q.n--
}

// removeAnswered empties the queue and returns the requests that have been
// answered, but for current: the reader goroutine still looks at that one.
func (q *requestQueue) removeAnswered(current *Request) []*Request {
	var out []*Request
	for ; q.n > 0; q.pop() {
		if r := q.front(); r.state != slotPending && r != current {
			out = append(out, r)
		}
	}
	q.ring = nil
	return out
}

// writable reports whether the oldest request can leave: it is answered, and the
// reader goroutine is done with it. mu is held.
func (c *Conn) writable() bool {
	r := c.queue.front()
	return r != nil && r.state != slotPending && r != c.current
}

// complete puts the outcome of r in its place in the queue and sees to it that
// somebody writes it. It never blocks on the socket: the caller may be a commit
// loop that serves every connection.
func (c *Conn) complete(r *Request, state slotState) {
	out := r.memoryOut()
	c.mu.Lock()
	r.state = state
	if c.dead || c.muted {
		mine := r != c.current // else beginHandle's counterpart finishes it
		c.mu.Unlock()
		if mine {
			c.finish(r)
		}
		return
	}
	r.memory = out
	c.respBytes += out
	c.srv.respBytes.Add(int64(out))
	if state == slotClosing {
		c.stopReadingLocked(ReasonHandler, r.closeErr)
	}
	spawn := !c.writing && c.writable()
	if spawn {
		c.writing = true
		c.srv.wg.Add(1) // the reader goroutine still counts: c is not dead
	}
	c.mu.Unlock()
	if spawn {
		go c.writeInBackground()
	}
}

// beginHandle gives r its place in the queue; false when the connection stops.
func (c *Conn) beginHandle(r *Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return false
	}
	c.queue.push(r)
	c.current, c.pending = r, nil
	c.inFlight++
	c.reqBytes += cap(r.frame.b)
	c.srv.inFlight.Add(1)
	return true
}

// endHandle marks that Handle has returned and writes what can leave now: here
// when nothing else is waiting to be read, else in the background so that the
// next request starts and answers gather into one write.
func (c *Conn) endHandle(r *Request) {
	now := time.Now()
	c.mu.Lock()
	c.current = nil
	r.handledAt = now
	if c.dead || c.muted {
		mine := r.state != slotPending
		c.mu.Unlock()
		if mine {
			c.finish(r)
		}
		return
	}
	run := !c.writing && c.writable()
	background := run && c.pipelined
	if run {
		c.writing = true
	}
	if background {
		c.srv.wg.Add(1)
	}
	c.mu.Unlock()
	switch {
	case background:
		go c.writeInBackground()
	case run:
		c.writeAnswered()
	}
}

func (c *Conn) writeInBackground() {
	defer c.srv.wg.Done()
	c.writeAnswered()
}

// writeAnswered writes answers in request order until the oldest request is not
// answered yet. The caller has set writing.
func (c *Conn) writeAnswered() {
	for {
		batch, closing := c.takeBatch()
		if len(batch) == 0 && closing == nil {
			return
		}
		err := c.send.responses(batch)
		if err == nil {
			c.touch(time.Now())
		}
		c.release(batch)
		switch {
		case err != nil && isTimeout(err):
			c.die(ReasonWriteTimeout, err)
		case err != nil:
			c.die(ReasonWriteError, err)
		case closing != nil:
			c.mute()
			c.finish(closing)
		}
	}
}

// takeBatch moves answered requests from the queue to the writer. closing is the
// request that ends the connection, if it comes next. When there is nothing to
// do it also gives up writing.
func (c *Conn) takeBatch() (batch []*Request, closing *Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch = c.send.batch[:0]
	for !c.dead && !c.muted && c.writable() && len(batch) < maxBatch && closing == nil {
		r := c.queue.front()
		c.queue.pop()
		if r.state == slotClosing {
			closing = r
		} else {
			batch = append(batch, r)
		}
	}
	c.send.batch = batch
	if len(batch) == 0 && closing == nil {
		c.writing = false
	}
	return batch, closing
}

// mute ends the answers: what is queued or still to come is dropped, and the
// reader goroutine closes the connection.
func (c *Conn) mute() {
	c.mu.Lock()
	c.muted = true
	dropped := c.queue.removeAnswered(c.current)
	c.changed.Broadcast()
	c.mu.Unlock()
	for _, r := range dropped {
		c.finish(r)
	}
}

// release finishes a written batch.
func (c *Conn) release(batch []*Request) {
	for i, r := range batch {
		c.finish(r)
		batch[i] = nil
	}
}

// finish gives back all that r holds and reports it. It is called once for each
// request, after Handle returned and after it was ended: by the writer, by the
// reader goroutine, or by whoever ended a request of a dead connection.
func (c *Conn) finish(r *Request) {
	s := c.srv
	sample := telemetry.RequestSample{
		APIKey: r.Header.Key, ErrorCode: r.Code, BytesIn: len(r.frame.b) + 4, BytesOut: r.bytesOut,
		Queue: r.queued, Handle: r.handledAt.Sub(r.startedAt), Send: time.Since(r.answeredAt),
	}
	if wait := r.answeredAt.Sub(r.handledAt); wait > 0 {
		sample.Wait = wait
	} else { // answered inside Handle
		sample.Handle = r.answeredAt.Sub(r.startedAt)
	}
	in, answered := cap(r.frame.b), r.bytesOut > 0
	r.payload.Release()
	s.pool.put(r.resp)
	if !r.leakFrame {
		s.pool.put(r.frame)
	}
	r.frame, r.resp, r.Body = nil, nil, nil
	s.memory.release(&r.mem)
	s.inFlight.Add(-1)
	s.respBytes.Add(int64(-r.memory))

	c.mu.Lock()
	if answered && !opens(r.Header.Key) {
		c.grownLocked()
	}
	c.inFlight--
	c.reqBytes -= in
	c.respBytes -= r.memory
	c.changed.Broadcast()
	c.mu.Unlock()
	s.opts.Observer.RequestDone(sample)
}
