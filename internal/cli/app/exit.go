package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Exit codes (design decision D15). Inconclusive is never pass.
const (
	ExitPass         = 0
	ExitError        = 1 // the tool could not do its work
	ExitFinding      = 2 // the work was done and found something wrong
	ExitInconclusive = 3
	ExitRefused      = 4 // the tool would not do what it was asked
)

// Error is an error with an exit code and the way out.
type Error struct {
	Code    int
	Message string
	Hint    string // how to fix it, or ""
	Cause   error
}

// Error returns the message without the hint.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause, if any.
func (e *Error) Unwrap() error { return e.Cause }

// Fix adds the way out.
func (e *Error) Fix(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

func newError(code int, format string, args []any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// Failed is a tool error.
func Failed(format string, args ...any) *Error { return newError(ExitError, format, args) }

// Usage is a tool error of the person at the keyboard.
func Usage(format string, args ...any) *Error { return newError(ExitError, format, args) }

// Finding says that a check found something wrong.
func Finding(format string, args ...any) *Error { return newError(ExitFinding, format, args) }

// Inconclusive says that a check could not decide.
func Inconclusive(format string, args ...any) *Error {
	return newError(ExitInconclusive, format, args)
}

// Refused says that the tool would not do it.
func Refused(format string, args ...any) *Error { return newError(ExitRefused, format, args) }

// Code returns the exit code for err.
func Code(err error) int {
	var e *Error
	switch {
	case err == nil:
		return ExitPass
	case errors.As(err, &e):
		return e.Code
	}
	return ExitError
}

// Report writes err and its hint to Err.
func (a *App) Report(err error) {
	var e *Error
	a.Note("tidemark: %v", err)
	if errors.As(err, &e) && e.Hint != "" {
		a.Note("fix: %s", e.Hint)
	}
}

// NoPartition says that a topic of so many partitions lacks one.
func NoPartition(topic string, partition int32, have int) *Error {
	return Failed("topic %s has no partition %d", topic, partition).Fix("it has %s: 0 to %d", Plural(int64(have), "partition"), have-1)
}

// hints are the ways out of answers that a cluster gives.
var hints = map[*kerr.Error]string{
	kerr.UnknownTopicOrPartition:    "see \"tidemark topic list\", or create it with \"tidemark topic create NAME\"",
	kerr.UnknownTopicID:             "the topic was deleted meanwhile; see \"tidemark topic list\"",
	kerr.TopicAlreadyExists:         "use \"tidemark topic describe\" to see it, or pass --if-not-exists",
	kerr.InvalidReplicationFactor:   "the cluster has fewer brokers than that; see \"tidemark cluster describe\"",
	kerr.NotEnoughReplicas:          "fewer replicas are in sync than min.insync.replicas asks for; see \"tidemark topic describe\"",
	kerr.TopicAuthorizationFailed:   "ask for the right to do this on the topic",
	kerr.MessageTooLarge:            "raise max.message.bytes of the topic with \"tidemark topic alter NAME --set max.message.bytes=N\", or send smaller records",
	kerr.OffsetOutOfRange:           "see \"tidemark offsets TOPIC\" for what is there",
	kerr.KafkaStorageError:          "the broker's disk failed or is full; look at its log",
	kerr.UnsupportedVersion:         "the cluster is too old for this command",
	kerr.TopicDeletionDisabled:      "set delete.topic.enable=true on the brokers",
	kerr.InvalidPartitions:          "a topic has at least 1 partition, and partitions can only be added; see \"tidemark topic describe\"",
	kerr.InvalidConfig:              "see the names and values with \"tidemark config describe --all --docs\" and --topic, --broker, --cluster or --group",
	kerr.InvalidTopicException:      "a name has letters, digits, dots, underscores and dashes, at most 249, and is not . or ..",
	kerr.LeaderNotAvailable:         "an election is on; try again",
	kerr.GroupIDNotFound:            "see \"tidemark group list\"",
	kerr.GroupAuthorizationFailed:   "ask for the right to do this on the group",
	kerr.CoordinatorNotAvailable:    "the group's coordinator is being elected; try again",
	kerr.ClusterAuthorizationFailed: "ask for the right to do this on the cluster",
}

// dialError finds a connection that was not made behind an error; nil without one.
func dialError(err error) error {
	var shards *kadm.ShardErrors
	if errors.As(err, &shards) && len(shards.Errs) > 0 {
		err = shards.Errs[0].Err
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return op
	}
	return nil
}

// Explain turns the answer of a cluster into an error for a person: what was
// tried, Kafka's name of the error, the cluster's own words, and the way out.
func Explain(err error, message string, format string, args ...any) *Error {
	what := fmt.Sprintf(format, args...)
	if errors.Is(err, context.DeadlineExceeded) {
		return Failed("%s: no answer in time", what).Fix("look whether the cluster is up with \"tidemark cluster describe\", or give it longer with --timeout")
	}
	if dial := dialError(err); dial != nil {
		return Failed("%s: the cluster names a broker that is out of reach: %v", what, dial).
			Fix("brokers tell clients where they are: set advertised.listeners there to an address that is reached from here, or look whether that broker is up")
	}
	var auth *kadm.AuthError
	if errors.As(err, &auth) {
		err = auth.Err
	}
	var ke *kerr.Error
	if !errors.As(err, &ke) {
		return Failed("%s: %w", what, err)
	}
	text := ke.Message
	if message != "" {
		text += ": " + message
	} else if ke.Description != "" {
		text += ": " + strings.TrimSuffix(ke.Description, ".")
	}
	e := Failed("%s: %s", what, text)
	e.Cause = ke
	for k, hint := range hints {
		if ke.Code == k.Code {
			e.Hint = hint
		}
	}
	return e
}
