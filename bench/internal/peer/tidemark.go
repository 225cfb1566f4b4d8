package peer

import (
	"fmt"
	"path/filepath"
	"syscall"
	"time"
)

// tidemark is a node of its own of the binary under test.
type tidemark struct {
	name, binary, durability, dir string
	port, admin                   int
	tls                           *secure // nil: plaintext only
	p                             *process
}

// NewTidemark returns a node with the given durability; dir is its own.
func NewTidemark(binary, durability, dir string) Peer {
	return &tidemark{
		name: "Tidemark " + durability, binary: binary, durability: durability,
		dir: filepath.Join(dir, "tidemark-"+durability), port: freePort(), admin: freePort(),
	}
}

// NewOther is a second binary with the same durability, to compare a change of
// the code with what was before, in turn.
func NewOther(binary, durability, dir string) Peer {
	t := NewTidemark(binary, durability, filepath.Join(dir, "other")).(*tidemark)
	t.name = Other
	return t
}

func (t *tidemark) Name() string { return t.name }

func (t *tidemark) Settings() []string {
	out := []string{"durability=" + t.durability, "log.segment.delete.delay.ms=" + deleteDelayMs}
	if t.tls != nil {
		out = append(out, t.tls.settings(t.Addr(), 0)...)
	}
	return out
}

func (t *tidemark) Prepare() error { return nil }

func (t *tidemark) Exec() (time.Time, error) {
	argv := []string{
		t.binary, "server", "--data-dir", filepath.Join(t.dir, "data"), "--admin", fmt.Sprintf("127.0.0.1:%d", t.admin),
	}
	if t.tls == nil {
		argv = append(argv, "--listen", t.Addr())
	}
	for _, s := range t.Settings() {
		argv = append(argv, "--set", s)
	}
	p, at, err := run(t.dir, argv...)
	t.p = p
	return at, err
}

func (t *tidemark) Kill()        { t.p.end(syscall.SIGKILL) }
func (t *tidemark) Stop()        { t.p.end(syscall.SIGTERM) }
func (t *tidemark) PID() int     { return t.p.pid() }
func (t *tidemark) Dir() string  { return t.dir }
func (t *tidemark) Addr() string { return fmt.Sprintf("127.0.0.1:%d", t.port) }

// Admin returns the address of a Tidemark node's admin listener, where pprof is.
func Admin(p Peer) (string, bool) {
	if t, ok := p.(*tidemark); ok {
		return fmt.Sprintf("127.0.0.1:%d", t.admin), true
	}
	return "", false
}

// bare is the bench's own ceiling server, run as a process to have CPU time of
// its own.
type bare struct {
	self, dir string
	sync      bool
	port, raw int
	p         *process
}

// NewCeiling returns the ceiling: self is the path of the bench program.
func NewCeiling(self, dir string, sync bool) Peer {
	name := "ceiling"
	if sync {
		name = "ceiling-fdatasync"
	}
	return &bare{self: self, dir: filepath.Join(dir, name), sync: sync, port: freePort(), raw: freePort()}
}

func (b *bare) Name() string {
	if b.sync {
		return CeilingF
	}
	return Ceiling
}

func (b *bare) Settings() []string { return nil }
func (b *bare) Prepare() error     { return nil }

func (b *bare) Exec() (time.Time, error) {
	argv := []string{b.self, "ceiling", "-listen", b.Addr(), "-raw", fmt.Sprintf("127.0.0.1:%d", b.raw), "-dir", b.dir}
	if b.sync {
		argv = append(argv, "-sync")
	}
	p, at, err := run(b.dir, argv...)
	b.p = p
	return at, err
}

func (b *bare) Kill()        { b.p.end(syscall.SIGKILL) }
func (b *bare) Stop()        { b.p.end(syscall.SIGKILL) }
func (b *bare) PID() int     { return b.p.pid() }
func (b *bare) Dir() string  { return b.dir }
func (b *bare) Addr() string { return fmt.Sprintf("127.0.0.1:%d", b.port) }

// Raw returns the sendfile port of a ceiling and the file it serves.
func Raw(p Peer) (addr, file string, ok bool) {
	if b, ok := p.(*bare); ok {
		return fmt.Sprintf("127.0.0.1:%d", b.raw), filepath.Join(b.dir, "raw.bin"), true
	}
	return "", "", false
}
