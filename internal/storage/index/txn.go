package index

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/tidemark-io/tidemark/internal/storage/filecache"
)

// Txn is the .txnindex of one segment (TransactionIndex.java). The file is made
// by the first aborted transaction; most segments have none. Entries are read
// on demand, so an index that is not used costs nothing.
type Txn struct {
	slot   filecache.Slot
	base   int64
	loaded bool
	none   bool // no file, or an empty one
	size   int64
	last   int64 // last offset of the newest entry
}

// Init ties the index to its file.
func (x *Txn) Init(fc *filecache.Cache, name filecache.Namer, kind uint8, base int64) {
	x.slot.Init(fc, name, kind)
	x.base = base
}

// Create says that the segment is new and has no file yet.
func (x *Txn) Create() { x.loaded, x.none, x.size, x.last = true, true, 0, -1 }

// Load reads what is there and checks it; a missing file is an empty index.
func (x *Txn) Load() error {
	x.Create()
	h, err := x.slot.Acquire(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	x.loaded = false
	if err != nil {
		return err
	}
	defer h.Release()
	entries, err := x.read(h)
	if err != nil {
		return err
	}
	x.loaded = true
	x.size = int64(len(entries)) * TxnEntrySize
	x.none = len(entries) == 0
	if !x.none {
		x.last = entries[len(entries)-1].LastOffset
	}
	return nil
}

// maxTxnIndexBytes bounds what one file may make us read: 3 million entries.
const maxTxnIndexBytes = 100 << 20

func (x *Txn) read(h *filecache.Handle) ([]AbortedTxn, error) {
	size, err := h.Size()
	if err != nil {
		return nil, err
	}
	if size > maxTxnIndexBytes {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrCorrupt, h.Name(), size)
	}
	b := make([]byte, size)
	n, err := h.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return DecodeTxnEntries(b[:n], x.base)
}

// Append adds a transaction whose abort marker was just written.
func (x *Txn) Append(t AbortedTxn) error {
	if !x.loaded {
		if err := x.Load(); err != nil {
			return err
		}
	}
	if t.LastOffset <= x.last {
		return fmt.Errorf("aborted transaction ends at %d, not above %d", t.LastOffset, x.last)
	}
	h, err := x.slot.Acquire(true)
	if err != nil {
		return err
	}
	defer h.Release()
	var buf [TxnEntrySize]byte
	if _, err := h.WriteAt(AppendTxnEntry(buf[:0], t), x.size); err != nil {
		return err
	}
	x.size += TxnEntrySize
	x.last, x.none = t.LastOffset, false
	return nil
}

// All returns every entry in order of the markers.
func (x *Txn) All() ([]AbortedTxn, error) {
	if x.loaded && x.none {
		return nil, nil
	}
	h, err := x.slot.Acquire(false)
	if errors.Is(err, fs.ErrNotExist) {
		x.Create()
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer h.Release()
	return x.read(h)
}

// Collect appends to dst the transactions that overlap [from, upper), and
// reports whether no later segment can hold another one.
func (x *Txn) Collect(dst []AbortedTxn, from, upper int64) (_ []AbortedTxn, complete bool, err error) {
	entries, err := x.All()
	if err != nil {
		return dst, false, err
	}
	for _, t := range entries {
		if t.LastOffset >= from && t.FirstOffset < upper {
			dst = append(dst, t)
		}
		if t.LastStableOffset >= upper {
			return dst, true, nil
		}
	}
	return dst, false, nil
}

// TruncateTo removes the transactions that end at or above offset.
func (x *Txn) TruncateTo(offset int64) error {
	entries, err := x.All()
	if err != nil {
		return err
	}
	keep, last := 0, int64(-1)
	for keep < len(entries) && entries[keep].LastOffset < offset {
		last = entries[keep].LastOffset
		keep++
	}
	if keep == len(entries) {
		return nil
	}
	return x.cut(keep, last)
}

func (x *Txn) cut(keep int, last int64) error {
	h, err := x.slot.Acquire(false)
	if err != nil {
		return err
	}
	defer h.Release()
	if err := h.Truncate(int64(keep) * TxnEntrySize); err != nil {
		return err
	}
	x.loaded, x.none, x.size, x.last = true, keep == 0, int64(keep)*TxnEntrySize, last
	return nil
}

// Reset empties the index before a segment is scanned anew.
func (x *Txn) Reset() error {
	err := x.cut(0, -1)
	if errors.Is(err, fs.ErrNotExist) {
		x.Create()
		return nil
	}
	return err
}

// Sync makes the file durable where there is one. It needs no lock.
func (x *Txn) Sync() error {
	h, err := x.slot.Acquire(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.Release()
	return h.Sync()
}

// Close closes the file for good.
func (x *Txn) Close() { x.slot.Close() }

// LastOffset is the last offset of the newest entry, -1 without one.
func (x *Txn) LastOffset() (int64, error) {
	if !x.loaded {
		if err := x.Load(); err != nil {
			return -1, err
		}
	}
	return x.last, nil
}
