package beacon

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// DefaultLimit keeps a commit small: it is written every second or so for each
	// active partition, into a topic that every coordinator loads.
	DefaultLimit = 1024
	// BrokerLimit is the longest metadata that a broker accepts unless it is told
	// otherwise (offset.metadata.max.bytes, 4096 in Apache Kafka 4.3).
	BrokerLimit = 4096
)

// magic opens every beacon of this format.
const magic = "tm1"

// maxErrorBytes bounds LastError before it is quoted.
const maxErrorBytes = 96

// Errors of Decode.
var (
	// ErrForeign says that the text is somebody else's metadata: ignore it.
	ErrForeign = errors.New("commit metadata is not a beacon")
	// ErrCorrupt says that the text starts like a beacon but cannot be read;
	// treat it as absent.
	ErrCorrupt = errors.New("beacon is damaged")
)

// Beacon is what a consumer knew about one partition when it committed.
type Beacon struct {
	// AtMs is the committing process's clock, in Unix milliseconds. A reading
	// older than three beacon intervals says nothing about now.
	AtMs int64
	// Position is the offset that the consumer will fetch next.
	Position int64
	// Effect is the first delivered offset that is not closed (done or
	// quarantined), or Position when everything delivered is closed. It equals
	// the committed offset unless somebody else moved that.
	Effect int64
	// Running, Queued and RetryWait count delivered records by stage.
	Running, Queued, RetryWait int
	// OldestOffset is the first record that is not closed, -1 for none.
	OldestOffset int64
	// OldestAgeMs is the time since that record was delivered.
	OldestAgeMs int64
	// Attempts counts the finished attempts at that record.
	Attempts int
	// LastError is what the last of them said, at most 96 bytes.
	LastError string
	// Generation is the group generation (classic) or member epoch (KIP-848).
	Generation int32
	// Quarantined counts records that this assignment closed by quarantine.
	Quarantined int64
	// Delivered, Succeeded and Retried count, of this assignment: records, handlers
	// that said done, and handlers that said retry.
	Delivered, Succeeded, Retried int64
	// QueuedAgeMs, RunningAgeMs and RetryAgeMs say how long the oldest record of
	// each stage has been in it, 0 without one.
	QueuedAgeMs, RunningAgeMs, RetryAgeMs int64
	// PollAgeMs is the time since the process last came back from a poll.
	PollAgeMs int64
	// StoppedMs is how long the partition had no sign of life before this
	// assignment, 0 when unknown.
	StoppedMs int64
	// Since is how many partitions the topic had when the group first consumed
	// it, 0 when unknown. A partition from there up that has no commit is new
	// and starts at its log start (KAFKA-20030: no silent latest).
	Since int32
	// Paused names why fetching is held ("records", "bytes", "window", "total",
	// "drain", "held"), empty when it is not.
	Paused string
	// Done are the completed records from Effect on. Effect itself is among them
	// only when an earlier owner completed it and it was not delivered again yet.
	Done Set
	// Cut counts completed records that did not fit; Encode sets it.
	Cut int64
}

// Waiting is everything delivered that no handler holds: queued and in
// retry-wait.
func (b Beacon) Waiting() int { return b.Queued + b.RetryWait }

// Encode returns the beacon as text of at most limit bytes. It returns "" when
// not even the fields fit: a commit without a beacon is still a commit.
func Encode(b Beacon, limit int) string {
	head := b.head(true)
	if len(head) > limit {
		head = b.head(false)
	}
	if len(head) > limit {
		return ""
	}
	if len(b.Done) == 0 {
		return head
	}
	const tail = len(" | done=") + len(" cut=") + 20
	done, kept := encodeSet(b.Done, b.Effect, limit-len(head)-tail)
	var s strings.Builder
	s.WriteString(head)
	s.WriteString(" |")
	if kept > 0 {
		s.WriteString(" done=" + done)
	}
	if cut := b.Done.Len() - b.Done[:kept].Len(); cut > 0 {
		s.WriteString(" cut=" + strconv.FormatInt(cut, 10))
	}
	if s.Len() > limit { // only the cut field is left, and even that is too long
		return head
	}
	return s.String()
}

func (b Beacon) head(full bool) string {
	s := make([]byte, 0, 192)
	num := func(key string, v int64, always bool) {
		if v != 0 || always {
			s = append(append(append(s, ' '), key...), '=')
			s = strconv.AppendInt(s, v, 10)
		}
	}
	s = append(s, magic+" at="...)
	s = time.UnixMilli(b.AtMs).UTC().AppendFormat(s, "2006-01-02T15:04:05.000Z")
	num("pos", b.Position, true)
	num("eff", b.Effect, true)
	num("run", int64(b.Running), true)
	num("wait", int64(b.Waiting()), true)
	num("retry", int64(b.RetryWait), false)
	if b.OldestOffset >= 0 {
		s = append(s, " old="+text(b.OldestAgeMs)+"@"...)
		s = strconv.AppendInt(s, b.OldestOffset, 10)
	}
	num("try", int64(b.Attempts), false)
	num("gen", int64(b.Generation), true)
	num("q", b.Quarantined, false)
	num("n", b.Delivered, false)
	num("ok", b.Succeeded, false)
	num("again", b.Retried, false)
	if b.QueuedAgeMs+b.RunningAgeMs+b.RetryAgeMs > 0 {
		s = append(s, " ages="+text(b.QueuedAgeMs)+"/"+text(b.RunningAgeMs)+"/"+text(b.RetryAgeMs)...)
	}
	for _, d := range []struct {
		key string
		ms  int64
	}{{"poll", b.PollAgeMs}, {"stop", b.StoppedMs}} {
		if d.ms > 0 {
			s = append(s, " "+d.key+"="+text(d.ms)...)
		}
	}
	num("since", int64(b.Since), false)
	if b.Paused != "" {
		s = append(s, " paused="+field(b.Paused)...)
	}
	if b.LastError != "" && full {
		s = append(s, " err="...)
		s = strconv.AppendQuoteToASCII(s, clip(b.LastError, maxErrorBytes))
	}
	return string(s)
}

// text prints a time.
func text(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// field makes a word of s: letters, digits and dashes.
func field(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, clip(s, 24))
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

// Decode reads what Encode wrote. Text of other programs gives ErrForeign; both
// errors mean "start at the committed offset and believe nothing else".
func Decode(text string) (Beacon, error) {
	b := Beacon{OldestOffset: -1}
	rest, ok := strings.CutPrefix(text, magic+" ")
	if !ok {
		return b, ErrForeign
	}
	done, wait := "", 0
	seen := map[string]bool{}
	for rest = strings.TrimLeft(rest, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		key, value, left, err := token(rest)
		if err != nil {
			return Beacon{OldestOffset: -1}, err
		}
		rest, seen[key] = left, true
		if key == "done" {
			done = value
			continue
		}
		if key == "wait" {
			if wait, err = count(value); err == nil {
				continue
			}
		} else if err = b.set(key, value); err == nil {
			continue
		}
		return Beacon{OldestOffset: -1}, fmt.Errorf("%w: field %s=%q: %v", ErrCorrupt, key, clip(value, 40), err)
	}
	for _, key := range []string{"at", "pos", "eff"} {
		if !seen[key] {
			return Beacon{OldestOffset: -1}, fmt.Errorf("%w: field %s is missing", ErrCorrupt, key)
		}
	}
	b.Queued = max(0, wait-b.RetryWait)
	if done == "" {
		return b, nil
	}
	set, err := decodeSet(done, b.Effect)
	if err != nil {
		return Beacon{OldestOffset: -1}, err
	}
	b.Done = set
	return b, nil
}

// token splits "key=value rest"; a value may be quoted, and "|" stands alone.
func token(s string) (key, value, rest string, err error) {
	if s[0] == '|' {
		return "|", "", s[1:], nil
	}
	eq := strings.IndexAny(s, "= ")
	if eq <= 0 || s[eq] != '=' {
		return "", "", "", fmt.Errorf("%w: %q is not key=value", ErrCorrupt, clip(s, 40))
	}
	key, s = s[:eq], s[eq+1:]
	if strings.HasPrefix(s, `"`) {
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return "", "", "", fmt.Errorf("%w: field %s: %v", ErrCorrupt, clip(key, 40), err)
		}
		value, err = strconv.Unquote(quoted)
		if err != nil {
			return "", "", "", fmt.Errorf("%w: field %s: %v", ErrCorrupt, clip(key, 40), err)
		}
		return key, value, s[len(quoted):], nil
	}
	value, rest, _ = strings.Cut(s, " ")
	return key, value, rest, nil
}

func (b *Beacon) set(key, value string) (err error) {
	switch key {
	case "at":
		var at time.Time
		if at, err = time.Parse("2006-01-02T15:04:05.000Z", value); err == nil {
			b.AtMs = at.UnixMilli()
		}
	case "pos":
		b.Position, err = offset(value)
	case "eff":
		b.Effect, err = offset(value)
	case "run":
		b.Running, err = count(value)
	case "retry":
		b.RetryWait, err = count(value)
	case "old":
		err = b.setOldest(value)
	case "try":
		b.Attempts, err = count(value)
	case "gen":
		var n int64
		n, err = strconv.ParseInt(value, 10, 32)
		b.Generation = int32(n)
	case "q":
		b.Quarantined, err = offset(value)
	case "n":
		b.Delivered, err = offset(value)
	case "ok":
		b.Succeeded, err = offset(value)
	case "again":
		b.Retried, err = offset(value)
	case "ages":
		err = b.setAges(value)
	case "poll":
		b.PollAgeMs, err = duration(value)
	case "stop":
		b.StoppedMs, err = duration(value)
	case "since":
		var n int
		n, err = count(value)
		b.Since = int32(n)
	case "paused":
		b.Paused = value
	case "err":
		b.LastError = value
	case "cut":
		b.Cut, err = offset(value)
	}
	return err
}

func (b *Beacon) setOldest(value string) error {
	age, at, ok := strings.Cut(value, "@")
	if !ok {
		return errors.New("not age@offset")
	}
	var err error
	if b.OldestAgeMs, err = duration(age); err == nil {
		b.OldestOffset, err = offset(at)
	}
	return err
}

func (b *Beacon) setAges(value string) (err error) {
	ages := strings.Split(value, "/")
	fields := []*int64{&b.QueuedAgeMs, &b.RunningAgeMs, &b.RetryAgeMs}
	if len(ages) < len(fields) { // a newer writer may have more stages
		return errors.New("not queued/running/retry")
	}
	for i, f := range fields {
		if *f, err = duration(ages[i]); err != nil {
			return err
		}
	}
	return nil
}

func duration(s string) (ms int64, err error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, errors.New("not an age")
	}
	return d.Milliseconds(), nil
}

func offset(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil && n < 0 {
		return 0, errors.New("negative")
	}
	return n, err
}

func count(s string) (int, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err == nil && n < 0 {
		return 0, errors.New("negative")
	}
	return int(n), err
}
