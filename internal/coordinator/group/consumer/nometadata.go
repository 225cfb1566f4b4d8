package consumer

import (
	"iter"

	"github.com/tidemark-io/tidemark/internal/coordinator/group/assignor"
	"github.com/tidemark-io/tidemark/internal/types"
)

// NoMetadata is a cluster without topics.
type NoMetadata struct{}

// Version implements Metadata.
func (NoMetadata) Version() int64 { return 0 }

// Topic implements Metadata.
func (NoMetadata) Topic(string) (assignor.Topic, bool) { return assignor.Topic{}, false }

// GrownTimeMs implements Metadata.
func (NoMetadata) GrownTimeMs(string, int32) int64 { return 0 }

// Name implements Metadata.
func (NoMetadata) Name(types.UUID) (string, bool) { return "", false }

// Names implements Metadata.
func (NoMetadata) Names() iter.Seq[string] { return func(func(string) bool) {} }
