package quorum

// batchStore is what metaLog needs of a log on disk. Batches arrive stamped
// with their offsets and epochs and are kept byte by byte.
//
// All methods may be called concurrently with each other, except that writes
// (Append, Sync, TruncateTo, ResetTo) come from one goroutine.
type batchStore interface {
	// Append writes whole batches at the end. They are durable after Sync.
	Append(batches []byte) error
	// Sync makes everything appended durable. An error is final.
	Sync() error
	// StartOffset is the first offset that is kept, EndOffset the next one.
	StartOffset() int64
	EndOffset() int64
	// Read returns whole batches, the first of which holds offset; at least
	// one batch, further ones while they fit maxBytes. Nothing at the end.
	Read(offset int64, maxBytes int) ([]byte, error)
	// TruncateTo drops everything from offset on, durably.
	TruncateTo(offset int64) error
	// ResetTo empties the log; the next batch starts at offset.
	ResetTo(offset int64) error
	// DeleteBefore raises the start offset and removes whole segments below it.
	DeleteBefore(offset int64) error
	// EndOffsetForEpoch is the largest epoch not above epoch and where it
	// ends; (-1, -1) when there is none.
	EndOffsetForEpoch(epoch int32) (int32, int64)
	SizeBytes() int64
	// Close makes everything durable and closes the files; after a failure
	// (abandon) it only closes them.
	Close(abandon bool) error
}
