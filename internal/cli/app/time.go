package app

import (
	"fmt"
	"strconv"
	"time"
)

// TimeLayout is how times are printed: RFC 3339 with milliseconds, in UTC.
const TimeLayout = "2006-01-02T15:04:05.000Z07:00"

// ParseTime reads a time as people write it: RFC 3339 (a date alone is its
// midnight in UTC), milliseconds since 1970, or an age before now such as 90m.
func ParseTime(s string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, time.UTC); err == nil {
			return t, nil
		}
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil && ms >= 0 {
		return time.UnixMilli(ms), nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time; write 2006-01-02T15:04:05Z, milliseconds since 1970, or an age such as 90m", s)
}
