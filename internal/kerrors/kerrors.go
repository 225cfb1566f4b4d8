package kerrors

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Code is a Kafka protocol error code. A Code is itself an error, so a core can
// return kerrors.NotLeaderOrFollower directly.
type Code int16

// Name returns the protocol name, for example UNKNOWN_TOPIC_OR_PARTITION.
func (c Code) Name() string {
	if n, ok := names[c]; ok {
		return n
	}
	return "ERROR_" + strconv.Itoa(int(c))
}

// Error returns the protocol name and Kafka's description of it.
func (c Code) Error() string {
	if d := c.Description(); d != "" {
		return c.Name() + ": " + d
	}
	return c.Name()
}

// Description returns what the protocol says the code means.
func (c Code) Description() string {
	var e *kerr.Error
	if errors.As(kerr.ErrorForCode(int16(c)), &e) {
		return e.Description
	}
	return ""
}

// Retriable reports whether a client may send the same request again.
func (c Code) Retriable() bool { return kerr.IsRetriable(kerr.ErrorForCode(int16(c))) }

// Error is a code with the words that go into a response's error message.
type Error struct {
	Code    Code
	Message string
	Cause   error
}

// New returns an error with a code and a message for the client.
func New(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...)}
}

// Wrap gives cause a code; the cause stays visible to errors.Is and errors.As.
func Wrap(c Code, cause error, format string, args ...any) *Error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...), Cause: cause}
}

func (e *Error) Error() string {
	s := e.Code.Name()
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// CodeOf returns the protocol code that err carries: None for nil,
// UnknownServerError when it carries none.
func CodeOf(err error) Code {
	if err == nil {
		return None
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	var c Code
	if errors.As(err, &c) {
		return c
	}
	return UnknownServerError
}

// MessageOf returns the words for a response's error message field.
func MessageOf(err error) string {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) && e.Message != "" {
		return e.Message
	}
	return CodeOf(err).Description()
}
