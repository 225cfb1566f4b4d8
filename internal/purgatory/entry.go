package purgatory

import (
	"sync/atomic"
	"time"
)

// States of an entry. From stateEnding on, the value minus stateEnding is the
// Reason that a running check must finish the entry for.
const (
	stateIdle     int32 = iota
	stateChecking       // a goroutine is in Ready
	stateRecheck        // and must ask once more, for somebody came by
	stateDone
	stateEnding
)

// entry is one operation in the purgatory.
//
// Invariant: whoever moves state to stateDone calls Finish, nobody else; while
// state is checking or recheck exactly one goroutine is in Ready.
type entry[K comparable] struct {
	op       Operation
	state    atomic.Int32
	parked   atomic.Bool // counted in Purgatory.waiting
	watches  []watcher[K]
	one      [1]watcher[K] // the usual case of watches without a second allocation
	deadline time.Duration // on the timer's clock

	heapIndex int // guarded by the timer; -1 when not in it
}

func (e *entry[K]) done() bool { return e.state.Load() == stateDone }

// beginCheck makes the caller the one that asks Ready. When another goroutine is
// asking already, it is told to ask again, so that no change is missed.
func (e *entry[K]) beginCheck() bool {
	for {
		switch e.state.Load() {
		case stateIdle:
			if e.state.CompareAndSwap(stateIdle, stateChecking) {
				return true
			}
		case stateChecking:
			if e.state.CompareAndSwap(stateChecking, stateRecheck) {
				return false
			}
		default:
			return false
		}
	}
}

// What endCheck found.
const (
	checkIdle  = iota // nothing more to do
	checkAgain        // somebody came by: ask again
	checkEnded        // finish the entry for the reason that comes with it
)

// endCheck is called by the goroutine that asked Ready and heard no.
func (e *entry[K]) endCheck() (next int, why Reason) {
	for {
		switch s := e.state.Load(); {
		case s == stateChecking:
			if e.state.CompareAndSwap(stateChecking, stateIdle) {
				return checkIdle, 0
			}
		case s == stateRecheck:
			if e.state.CompareAndSwap(stateRecheck, stateChecking) {
				return checkAgain, 0
			}
		default:
			e.state.Store(stateDone)
			return checkEnded, Reason(s - stateEnding)
		}
	}
}

// beginEnd makes the caller the one that finishes e, if no check runs; else the
// check will, for this reason, unless it finds e ready.
func (e *entry[K]) beginEnd(why Reason) bool {
	for {
		switch s := e.state.Load(); s {
		case stateIdle:
			if e.state.CompareAndSwap(stateIdle, stateDone) {
				return true
			}
		case stateChecking, stateRecheck:
			if e.state.CompareAndSwap(s, stateEnding+int32(why)) {
				return false
			}
		default:
			return false
		}
	}
}
