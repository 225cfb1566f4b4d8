//go:build !linux

package network

import (
	"errors"
	"syscall"
)

// Without Linux's sendfile every range is copied; choosePath sees to it that
// nothing below is called.
const sendfileSupported = false

type fileSend struct{}

func (f *fileSend) init(*sender)                   {}
func (f *fileSend) send(uintptr, int64, int) error { return errors.ErrUnsupported }

type moreSend struct{}

func (m *moreSend) init()                                {}
func (m *moreSend) send(syscall.RawConn, [][]byte) error { return errors.ErrUnsupported }
