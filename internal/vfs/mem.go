package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory that knows what a disk would still hold after
// a power cut. Bytes become durable at File.Sync, names at SyncDir; CrashClone
// shows what is left. Nothing is ever lost without a crash.
//
// What it promises is less than any real file system: the sync of a new file
// does not make its name durable, and a rename between two folders may survive
// in one of them only. Code that is right here is right everywhere.
type Mem struct {
	mu            sync.Mutex
	root          *memNode
	locks         map[string]bool
	capacityBytes int64 // 0: no limit
	usedBytes     int64
	inodes        uint64
}

// NewMem returns an empty file system with "/" and "." in it. Paths are taken
// as absolute: "a/b" is "/a/b".
func NewMem() *Mem {
	m := &Mem{locks: map[string]bool{}}
	m.root = m.newNode(true)
	return m
}

// CrashOptions say how unlucky a power cut is.
type CrashOptions struct {
	// UnsyncedPercent is the chance, 0 to 100, of each unsynced piece to
	// survive: a sector of a write, a truncation, a name. At 0 exactly what
	// was synced is left, at 100 everything.
	UnsyncedPercent int
	// Seed makes the choice; equal seeds and equal histories lose the same.
	Seed uint64
}

// CrashClone returns the file system as a machine would find it after losing
// power now. The original goes on; open files and locks are its alone.
func (m *Mem) CrashClone(o CrashOptions) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewMem()
	c.capacityBytes = m.capacityBytes
	cl := cloner{to: c, keep: keeper(o), seen: map[*memNode]*memNode{}}
	c.root = cl.node(m.root)
	for _, n := range cl.seen {
		if !n.dir {
			c.usedBytes += int64(len(n.data))
		}
	}
	return c
}

func keeper(o CrashOptions) func() bool {
	rng := rand.New(rand.NewPCG(o.Seed, uint64(o.UnsyncedPercent)))
	return func() bool { return rng.IntN(100) < o.UnsyncedPercent }
}

// SetCapacity limits the bytes of all files together; 0 lifts the limit.
// Writes beyond it stop short with ENOSPC, as on a full disk.
func (m *Mem) SetCapacity(sizeBytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacityBytes = sizeBytes
}

// clean returns the path's elements.
func clean(name string) []string {
	p := filepath.Clean("/" + name)
	if p == "/" {
		return nil
	}
	return strings.Split(p[1:], "/")
}

func pathErr(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// ReservedBytes returns how much is reserved behind the end of a file.
func (m *Mem) ReservedBytes(name string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(name)
	if n == nil {
		return 0
	}
	return max(0, n.reserved-int64(len(n.data)))
}

// find returns the node of name, or nil.
func (m *Mem) find(name string) *memNode {
	n := m.root
	for _, el := range clean(name) {
		if n == nil || !n.dir {
			return nil
		}
		n = n.names[el]
	}
	return n
}

// parent returns the folder of name and its last element.
func (m *Mem) parent(op, name string) (*memNode, string, error) {
	els := clean(name)
	if len(els) == 0 {
		return nil, "", pathErr(op, name, syscall.EINVAL)
	}
	dir := m.find(strings.Join(els[:len(els)-1], "/"))
	if dir == nil {
		return nil, "", pathErr(op, name, fs.ErrNotExist)
	}
	if !dir.dir {
		return nil, "", pathErr(op, name, syscall.ENOTDIR)
	}
	return dir, els[len(els)-1], nil
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.open("create", name, true)
	if err != nil {
		return nil, err
	}
	m.resize(f.n, 0)
	return f, nil
}

// OpenReadWrite implements FS.
func (m *Mem) OpenReadWrite(name string, create bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.open("open", name, create)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (m *Mem) open(op, name string, create bool) (*memFile, error) {
	dir, base, err := m.parent(op, name)
	if err != nil {
		return nil, err
	}
	n := dir.names[base]
	switch {
	case n == nil && !create:
		return nil, pathErr(op, name, fs.ErrNotExist)
	case n == nil:
		n = m.newNode(false)
		dir.link(nameOp{set: base, node: n})
	case n.dir:
		return nil, pathErr(op, name, syscall.EISDIR)
	}
	n.handles++
	return &memFile{m: m, n: n, name: name, writable: true}, nil
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(name)
	if n == nil {
		return nil, pathErr("open", name, fs.ErrNotExist)
	}
	n.handles++
	return &memFile{m: m, n: n, name: name}, nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent("remove", name)
	if err != nil {
		return err
	}
	n := dir.names[base]
	if n == nil {
		return pathErr("remove", name, fs.ErrNotExist)
	}
	if n.dir && len(n.names) > 0 {
		return pathErr("remove", name, syscall.ENOTEMPTY)
	}
	dir.link(nameOp{unset: base})
	m.dropLink(n)
	return nil
}

// RemoveAll implements FS.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent("removeall", name)
	if err != nil {
		return nil // nothing there
	}
	n := dir.names[base]
	if n == nil {
		return nil
	}
	m.removeTree(n)
	dir.link(nameOp{unset: base})
	m.dropLink(n)
	return nil
}

func (m *Mem) removeTree(n *memNode) {
	for base, child := range n.names {
		m.removeTree(child)
		n.link(nameOp{unset: base})
		m.dropLink(child)
	}
}

// dropLink gives the space of a file back once it has neither a name nor a
// handle. Its bytes stay: after a crash the name may be there again.
func (m *Mem) dropLink(n *memNode) {
	n.links--
	m.maybeFree(n)
}

func (m *Mem) maybeFree(n *memNode) {
	if n.links == 0 && n.handles == 0 && !n.dir {
		m.usedBytes -= int64(len(n.data))
	}
}

// Rename implements FS.
func (m *Mem) Rename(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, oldBase, err := m.parent("rename", oldname)
	if err != nil {
		return err
	}
	to, newBase, err := m.parent("rename", newname)
	if err != nil {
		return err
	}
	n, target := from.names[oldBase], to.names[newBase]
	switch {
	case n == nil:
		return pathErr("rename", oldname, fs.ErrNotExist)
	case n == target:
		return nil
	case target != nil && target.dir && (!n.dir || len(target.names) > 0):
		return pathErr("rename", newname, syscall.EEXIST)
	case target != nil && !target.dir && n.dir:
		return pathErr("rename", newname, syscall.ENOTDIR)
	case n.dir && n.contains(to):
		return pathErr("rename", newname, syscall.EINVAL)
	}
	if from == to {
		from.link(nameOp{unset: oldBase, set: newBase, node: n})
	} else {
		to.link(nameOp{set: newBase, node: n})
		from.link(nameOp{unset: oldBase})
	}
	n.links-- // link counted the new name; the old one is gone
	if target != nil {
		m.dropLink(target)
	}
	return nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for _, el := range clean(dir) {
		child := n.names[el]
		if child == nil {
			child = m.newNode(true)
			n.link(nameOp{set: el, node: child})
		}
		if !child.dir {
			return pathErr("mkdir", dir, syscall.ENOTDIR)
		}
		n = child
	}
	return nil
}

// List implements FS.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.folder("list", dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(n.names))
	for name := range n.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

func (m *Mem) folder(op, dir string) (*memNode, error) {
	n := m.find(dir)
	if n == nil {
		return nil, pathErr(op, dir, fs.ErrNotExist)
	}
	if !n.dir {
		return nil, pathErr(op, dir, syscall.ENOTDIR)
	}
	return n, nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(name)
	if n == nil {
		return nil, pathErr("stat", name, fs.ErrNotExist)
	}
	return memInfo{name: filepath.Base(name), size: int64(len(n.data)), dir: n.dir, mod: n.mod}, nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.folder("syncdir", dir)
	if err != nil {
		return err
	}
	for _, op := range n.pendingNames {
		op.apply(n.syncedNames)
	}
	n.pendingNames = nil
	return nil
}

// Lock implements FS.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := strings.Join(clean(name), "/")
	if m.locks[key] {
		return nil, fmt.Errorf("lock %s: %w", name, ErrLocked)
	}
	f, err := m.open("lock", name, true)
	if err != nil {
		return nil, err
	}
	m.locks[key] = true
	return &memLock{f: f, key: key}, nil
}

type memLock struct {
	f   *memFile
	key string
}

func (l *memLock) Close() error {
	l.f.m.mu.Lock()
	delete(l.f.m.locks, l.key)
	l.f.m.mu.Unlock()
	return l.f.Close()
}

// Usage implements FS.
func (m *Mem) Usage(dir string) (totalBytes, usableBytes int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.folder("usage", dir); err != nil {
		return 0, 0, err
	}
	if m.capacityBytes == 0 {
		return 1 << 40, 1<<40 - m.usedBytes, nil
	}
	return m.capacityBytes, max(0, m.capacityBytes-m.usedBytes), nil
}

type memInfo struct {
	name string
	size int64
	dir  bool
	mod  time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return i.mod }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) Sys() any           { return nil }
func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
