package errfs

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Match chooses operations; nil means all.
type Match func(Op) bool

// Kinds matches operations of these kinds.
func Kinds(kinds ...Kind) Match { return func(op Op) bool { return slices.Contains(kinds, op.Kind) } }

// Changing matches operations that alter the disk.
func Changing(op Op) bool { return op.Kind.Changes() }

// PathSuffix matches operations on paths with that end.
func PathSuffix(suffix string) Match {
	return func(op Op) bool { return strings.HasSuffix(op.Path, suffix) }
}

// All matches what every one of ms matches.
func All(ms ...Match) Match {
	return func(op Op) bool {
		return !slices.ContainsFunc(ms, func(m Match) bool { return !m(op) })
	}
}

// FailNth returns a Before hook that fails the n-th matching operation (0 for
// the first) with err, and no other.
func FailNth(n int64, err error, match Match) func(Op) *Fault {
	var seen atomic.Int64
	return func(op Op) *Fault {
		if (match == nil || match(op)) && seen.Add(1)-1 == n {
			return &Fault{Err: err}
		}
		return nil
	}
}

// FailFrom returns a Before hook that fails every matching operation from the
// n-th on.
func FailFrom(n int64, err error, match Match) func(Op) *Fault {
	var seen atomic.Int64
	return func(op Op) *Fault {
		if (match == nil || match(op)) && seen.Add(1)-1 >= n {
			return &Fault{Err: err}
		}
		return nil
	}
}

// Switch is a Before hook that a test turns on and off: a disk that fills up
// and gets space again, a device that fails.
type Switch struct {
	mu    sync.Mutex
	match Match
	fault *Fault
}

// NoSpace returns a switch, off, that fails what needs space with ENOSPC.
// Writes stop after half their bytes.
func NoSpace() *Switch { return &Switch{match: Kinds(Create, Write, MkdirAll)} }

// On lets matching operations fail; a nil match keeps the switch's own.
func (s *Switch) On(err error, match Match) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if match != nil {
		s.match = match
	}
	s.fault = &Fault{Err: err}
}

// Fill is On with ENOSPC.
func (s *Switch) Fill() { s.On(syscall.ENOSPC, nil) }

// Off lets everything succeed again.
func (s *Switch) Off() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = nil
}

// Before is the hook.
func (s *Switch) Before(op Op) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil || (s.match != nil && !s.match(op)) {
		return nil
	}
	f := *s.fault
	if op.Kind == Write {
		f.ShortBytes = op.SizeBytes / 2
	}
	return &f
}
