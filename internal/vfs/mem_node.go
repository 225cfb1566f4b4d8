package vfs

import (
	"io"
	"io/fs"
	"maps"
	"slices"
	"syscall"
	"time"
)

// sectorBytes is the smallest piece that a disk writes whole. A write that was
// under way when the power went survives in any subset of its sectors.
const sectorBytes = 512

// memNode is a file or folder with its present and its durable state. The
// durable state plus the pending operations gives the present one.
type memNode struct {
	dir     bool
	id      uint64
	links   int // names that lead here
	handles int // open files
	mod     time.Time

	// Files.
	data    []byte
	synced  []byte
	pending []dataOp
	// reserved is how far Reserve went; it takes no capacity.
	reserved int64

	// Folders.
	names        map[string]*memNode
	syncedNames  map[string]*memNode
	pendingNames []nameOp
}

func (m *Mem) newNode(dir bool) *memNode {
	m.inodes++
	n := &memNode{dir: dir, id: m.inodes, mod: time.Unix(int64(m.inodes), 0)}
	if dir {
		n.names, n.syncedNames = map[string]*memNode{}, map[string]*memNode{}
	}
	return n
}

func (n *memNode) contains(other *memNode) bool {
	if n == other {
		return true
	}
	for _, c := range n.names {
		if c.dir && c.contains(other) {
			return true
		}
	}
	return false
}

// dataOp is a write of data at off, or, with data nil, a truncation to off.
type dataOp struct {
	off  int64
	data []byte
}

func (op dataOp) apply(b []byte) []byte {
	if op.data == nil {
		return setLen(b, op.off)
	}
	if end := op.off + int64(len(op.data)); end > int64(len(b)) {
		b = setLen(b, end)
	}
	copy(b[op.off:], op.data)
	return b
}

// sectors cuts the operation into what a power cut keeps or loses as a whole.
func (op dataOp) sectors(yield func(dataOp)) {
	if op.data == nil {
		yield(op)
		return
	}
	for off, rest := op.off, op.data; len(rest) > 0; {
		n := min(int64(len(rest)), sectorBytes-off%sectorBytes)
		yield(dataOp{off: off, data: rest[:n]})
		off, rest = off+n, rest[n:]
	}
}

// setLen cuts b or grows it with zeros.
func setLen(b []byte, n int64) []byte {
	if n <= int64(len(b)) {
		return b[:n]
	}
	if n <= int64(cap(b)) {
		have := len(b)
		b = b[:n]
		clear(b[have:])
		return b
	}
	grown := make([]byte, n, max(n, 2*int64(cap(b))))
	copy(grown, b)
	return grown
}

// nameOp takes one name away, gives one, or both at once (a rename).
type nameOp struct {
	unset string
	set   string
	node  *memNode
}

func (op nameOp) apply(names map[string]*memNode) {
	if op.unset != "" {
		delete(names, op.unset)
	}
	if op.set != "" {
		names[op.set] = op.node
	}
}

func (n *memNode) link(op nameOp) {
	op.apply(n.names)
	if op.node != nil {
		op.node.links++
	}
	n.pendingNames = append(n.pendingNames, op)
}

// cloner copies the durable part of a tree and what of the rest keep lets live.
type cloner struct {
	to   *Mem
	keep func() bool
	seen map[*memNode]*memNode // a file may have two names after a crash
}

func (c *cloner) node(n *memNode) *memNode {
	if have, ok := c.seen[n]; ok {
		return have
	}
	out := c.to.newNode(n.dir)
	out.mod = n.mod
	c.seen[n] = out
	if !n.dir {
		out.data = c.bytes(n)
		out.synced = append([]byte(nil), out.data...)
		return out
	}
	names := maps.Clone(n.syncedNames)
	for _, op := range n.pendingNames {
		if c.keep() {
			op.apply(names)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		child := c.node(names[name])
		child.links++
		out.names[name], out.syncedNames[name] = child, child
	}
	return out
}

func (c *cloner) bytes(n *memNode) []byte {
	b := append([]byte(nil), n.synced...)
	for _, op := range n.pending {
		op.sectors(func(s dataOp) {
			if c.keep() {
				b = s.apply(b)
			}
		})
	}
	return b
}

// memFile is an open file.
type memFile struct {
	m        *Mem
	n        *memNode
	name     string
	writable bool
	closed   bool
}

func (f *memFile) check(op string, write bool) error {
	switch {
	case f.closed:
		return pathErr(op, f.name, fs.ErrClosed)
	case write && !f.writable:
		return pathErr(op, f.name, fs.ErrPermission)
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathErr("read", f.name, fs.ErrInvalid)
	}
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathErr("write", f.name, fs.ErrInvalid)
	}
	fits, full := f.m.fit(f.n, off, int64(len(p)))
	if fits > 0 {
		op := dataOp{off: off, data: append([]byte(nil), p[:fits]...)}
		before := len(f.n.data)
		f.n.data = op.apply(f.n.data)
		f.m.usedBytes += int64(len(f.n.data) - before)
		f.n.pending = append(f.n.pending, op)
	}
	if full {
		return int(fits), pathErr("write", f.name, syscall.ENOSPC)
	}
	return len(p), nil
}

// fit returns how many of size bytes at off the file system has room for.
func (m *Mem) fit(n *memNode, off, size int64) (fits int64, full bool) {
	if m.capacityBytes == 0 {
		return size, false
	}
	limit := int64(len(n.data)) + max(0, m.capacityBytes-m.usedBytes)
	if off+size <= limit {
		return size, false
	}
	return max(0, limit-off), true
}

func (m *Mem) resize(n *memNode, size int64) {
	if size == int64(len(n.data)) {
		return
	}
	m.usedBytes += size - int64(len(n.data))
	n.data = setLen(n.data, size)
	n.pending = append(n.pending, dataOp{off: size})
}

func (f *memFile) Truncate(sizeBytes int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check("truncate", true); err != nil {
		return err
	}
	if sizeBytes < 0 {
		return pathErr("truncate", f.name, fs.ErrInvalid)
	}
	f.m.resize(f.n, sizeBytes)
	return nil
}

func (f *memFile) Reserve(_, to int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check("reserve", true); err != nil {
		return err
	}
	f.n.reserved = max(f.n.reserved, to)
	return nil
}

func (f *memFile) Unreserve() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check("unreserve", true); err != nil {
		return err
	}
	f.n.reserved = 0
	return nil
}

func (f *memFile) WriteOut() {}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check("sync", false); err != nil {
		return err
	}
	for _, op := range f.n.pending {
		f.n.synced = op.apply(f.n.synced)
	}
	f.n.pending = nil
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check("stat", false); err != nil {
		return 0, err
	}
	return int64(len(f.n.data)), nil
}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check("close", false); err != nil {
		return err
	}
	f.closed = true
	f.n.handles--
	f.m.maybeFree(f.n)
	return nil
}

func (f *memFile) Fd() (uintptr, bool) { return 0, false }
func (f *memFile) Name() string        { return f.name }
