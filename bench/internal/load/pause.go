package load

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// exactTimer gives the goroutine a thread whose sleeps end on time: the
// runtime's own timers are a millisecond coarse when nothing else runs, which
// would be most of a latency. The result undoes it.
func exactTimer() (undo func()) {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return runtime.UnlockOSThread
}

// pause sleeps in the kernel.
func pause(d time.Duration) {
	if d <= 0 {
		return
	}
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // a signal only makes it shorter; the caller looks at the clock
}
