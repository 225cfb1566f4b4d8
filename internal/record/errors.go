package record

import (
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// Sentinels; test with errors.Is.
var (
	// ErrShort means that the bytes end before the batch does. At the end of a
	// log file this is a torn write, in a fetch answer a cut last batch.
	ErrShort = errors.New("record batch is cut short")
	// ErrCorrupt means that the bytes cannot be a batch, or that they are one
	// whose CRC, counts or records contradict each other.
	ErrCorrupt = errors.New("record batch is corrupt")
	// ErrMagic means a message format older than v2 (magic 0 or 1), which
	// Kafka 4.x neither stores nor accepts.
	ErrMagic = errors.New("message format is older than v2")
	// ErrTooLarge means that records inflate beyond the caller's limit.
	ErrTooLarge = errors.New("decompressed records exceed the limit")
)

// InvalidError is the refusal of a produced batch: the code the client gets,
// the message, and which records (by index in the batch) are to blame.
type InvalidError struct {
	Code         kerrors.Code
	Message      string
	RecordErrors []RecordError
}

// RecordError blames one record of a batch (Produce v8+, KIP-467).
type RecordError struct {
	BatchIndex int32
	Message    string
}

// Error says the code's name and the message.
func (e *InvalidError) Error() string { return e.Code.Name() + ": " + e.Message }

// Unwrap makes the code and the message readable by kerrors.CodeOf and
// kerrors.MessageOf.
func (e *InvalidError) Unwrap() error {
	return &kerrors.Error{Code: e.Code, Message: e.Message}
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

func invalid(code kerrors.Code, format string, args ...any) *InvalidError {
	return &InvalidError{Code: code, Message: fmt.Sprintf(format, args...)}
}
