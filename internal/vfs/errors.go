package vfs

import (
	"errors"
	"syscall"
)

// ErrLocked says that another holder has the lock that Lock asked for. It is the
// system's EWOULDBLOCK, for those who do not know this package.
var ErrLocked error = lockedError{}

type lockedError struct{}

func (lockedError) Error() string { return "another process holds the lock" }

func (lockedError) Is(target error) bool { return target == syscall.EWOULDBLOCK }

// IsNoSpace reports whether err says that the disk, the quota or the inode
// table is full: the one kind of write error that may pass by itself.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
