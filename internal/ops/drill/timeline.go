package drill

import "time"

const nobody = -1

// timeline follows who owns each partition and when it stood still. It knows
// no clock: callers say when.
type timeline struct {
	parts []part
	// changed is the time of the last change of any owner.
	changed time.Duration
}

type part struct {
	owner  int
	last   time.Duration // last record processed, or last assignment
	quiet  time.Duration // longest time between records while owned
	moving bool          // given up, and no record since
	since  time.Duration // of moving
	stops  int
	stood  time.Duration // sum of ended stops in this event
	before int           // owner when the event began
}

func newTimeline(partitions int) *timeline {
	t := &timeline{parts: make([]part, partitions)}
	for i := range t.parts {
		t.parts[i] = part{owner: nobody, before: nobody}
	}
	return t
}

// begin starts an event at now: counts start anew, owners stay.
func (t *timeline) begin(now time.Duration) {
	for i := range t.parts {
		p := &t.parts[i]
		p.stops, p.stood, p.quiet, p.before = 0, 0, 0, p.owner
		p.last = now
		if p.moving {
			p.since = now
			p.stops = 1
		}
	}
	t.changed = now
}

// assign gives a partition to member.
func (t *timeline) assign(p int32, member int, now time.Duration) {
	q := &t.parts[p]
	q.owner, q.last, t.changed = member, now, now
}

// release takes a partition from member, if it is still member's: a lost
// member may hear of it after the next owner has begun.
func (t *timeline) release(p int32, member int, now time.Duration) {
	q := &t.parts[p]
	if q.owner != member {
		return
	}
	q.owner, t.changed = nobody, now
	if !q.moving {
		q.moving, q.since = true, now
		q.stops++
	}
}

// releaseAll takes everything from member: it died.
func (t *timeline) releaseAll(member int, now time.Duration) {
	for p := range t.parts {
		t.release(int32(p), member, now)
	}
}

// processed notes a record. It ends a stop when its processor owns the partition.
func (t *timeline) processed(p int32, member int, now time.Duration) {
	q := &t.parts[p]
	if q.owner != member {
		return
	}
	if q.moving {
		q.moving = false
		q.stood += now - q.since
		t.changed = now
	} else {
		q.quiet = max(q.quiet, now-q.last)
	}
	q.last = now
}

// running reports whether every partition is owned and has had a record since
// it was given up, and how many partitions each member owns.
func (t *timeline) running() (bool, map[int]int) {
	counts := map[int]int{}
	for _, q := range t.parts {
		if q.owner == nobody || q.moving {
			return false, nil
		}
		counts[q.owner]++
	}
	return true, counts
}

// stops lists the partitions that stopped since begin; a stop that has not
// ended counts up to now. quiet is the longest pause of one that never stopped.
func (t *timeline) stops(now time.Duration, name func(int) string) (list []PartitionStop, quiet time.Duration) {
	for i, q := range t.parts {
		if q.stops == 0 {
			quiet = max(quiet, q.quiet, now-q.last)
			continue
		}
		stood := q.stood
		if q.moving {
			stood += now - q.since
		}
		list = append(list, PartitionStop{
			Partition: int32(i), From: name(q.before), To: name(q.owner), Moved: q.before != q.owner,
			StoppedMs: ms(stood), Stops: q.stops,
		})
	}
	return list, quiet
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
