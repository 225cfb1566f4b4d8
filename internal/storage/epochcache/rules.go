package epochcache

import "sort"

// list holds the rules: entries with strictly growing epochs and offsets. It
// touches no file, lock or clock.
type list []Entry

func (l list) latest() (Entry, bool) {
	if len(l) == 0 {
		return Entry{}, false
	}
	return l[len(l)-1], true
}

// ceiling returns the index of the first entry with an epoch >= epoch.
func (l list) ceiling(epoch int32) int {
	return sort.Search(len(l), func(i int) bool { return l[i].Epoch >= epoch })
}

// needs reports whether assigning e would change anything: it does unless e
// names the latest epoch at the same or a later offset.
func (l list) needs(e Entry) bool {
	last, ok := l.latest()
	return !ok || e.Epoch != last.Epoch || e.StartOffset < last.StartOffset
}

// assign appends e after removing, from the newest, each entry that e
// contradicts: an epoch not below e's or an offset not below e's. An epoch
// with no record of its own disappears this way when the next one begins.
func (l *list) assign(e Entry) bool {
	if e.Epoch < 0 || e.StartOffset < 0 || !l.needs(e) {
		return false
	}
	n := len(*l)
	for n > 0 && ((*l)[n-1].Epoch >= e.Epoch || (*l)[n-1].StartOffset >= e.StartOffset) {
		n--
	}
	*l = append((*l)[:n], e)
	return true
}

func (l *list) truncateFromEnd(endOffset int64) bool {
	n := len(*l)
	if endOffset < 0 {
		return false
	}
	for n > 0 && (*l)[n-1].StartOffset >= endOffset {
		n--
	}
	changed := n != len(*l)
	*l = (*l)[:n]
	return changed
}

// truncateFromStart reports a change only when the list differs afterwards.
func (l *list) truncateFromStart(startOffset int64) bool {
	n := 0
	for n < len(*l) && (*l)[n].StartOffset <= startOffset {
		n++
	}
	if n == 0 {
		return false
	}
	changed := n > 1 || (*l)[n-1].StartOffset != startOffset
	*l = append(list(nil), (*l)[n-1:]...)
	(*l)[0].StartOffset = startOffset
	return changed
}

func (l list) endOffsetFor(epoch int32, logEnd int64) (int32, int64) {
	if epoch == Undefined {
		return Undefined, Undefined
	}
	if last, ok := l.latest(); ok && last.Epoch == epoch {
		return epoch, logEnd
	}
	higher := sort.Search(len(l), func(i int) bool { return l[i].Epoch > epoch })
	switch {
	case higher == len(l):
		return Undefined, Undefined
	case higher == 0:
		// The data of that epoch is gone; the follower goes on at our start.
		return epoch, l[0].StartOffset
	default:
		return l[higher-1].Epoch, l[higher].StartOffset
	}
}

func (l list) epochForOffset(offset int64) (int32, bool) {
	i := sort.Search(len(l), func(i int) bool { return l[i].StartOffset > offset })
	if i == 0 {
		return Undefined, false
	}
	return l[i-1].Epoch, true
}
