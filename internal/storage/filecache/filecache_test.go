package filecache

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/tidemark-io/tidemark/internal/vfs"
)

type name struct {
	mu   sync.Mutex
	path string
}

func (n *name) FilePath(uint8) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.path
}

func slots(t *testing.T, c *Cache, n int) ([]*Slot, []*name) {
	t.Helper()
	if err := c.FS().MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	var ss []*Slot
	var ns []*name
	for i := range n {
		nm := &name{path: fmt.Sprintf("/d/%d", i)}
		s := &Slot{}
		s.Init(c, nm, 0)
		ss, ns = append(ss, s), append(ns, nm)
	}
	return ss, ns
}

func TestBound(t *testing.T) {
	c := New(vfs.NewMem(), 3)
	ss, _ := slots(t, c, 10)
	for round := range 3 {
		for i, s := range ss {
			h, err := s.Acquire(true)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.WriteAt([]byte{byte(i)}, int64(round)); err != nil {
				t.Fatal(err)
			}
			h.Release()
		}
		if n := c.Open(); n > 3 {
			t.Fatalf("%d files open", n)
		}
	}
}

func TestReferencesAreNotEvicted(t *testing.T) {
	c := New(vfs.NewMem(), 2)
	ss, ns := slots(t, c, 6)
	var held []*Handle
	for _, s := range ss {
		h, err := s.Acquire(true)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, h)
	}
	if c.Open() != 6 {
		t.Fatalf("%d files open", c.Open())
	}
	// A rename and a removal do not disturb who holds the file.
	if _, err := held[0].WriteAt([]byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	if err := c.FS().Rename("/d/0", "/d/gone"); err != nil {
		t.Fatal(err)
	}
	ns[0].mu.Lock()
	ns[0].path = "/d/gone"
	ns[0].mu.Unlock()
	ss[0].Close()
	b := make([]byte, 1)
	if _, err := held[0].ReadAt(b, 0); err != nil || b[0] != 'x' {
		t.Fatal(err, b)
	}
	if _, err := ss[0].Acquire(true); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	for _, h := range held {
		h.Release()
	}
	ss[1].Drop()
	if h, err := ss[1].Acquire(false); err != nil {
		t.Fatal(err)
	} else {
		h.Release()
	}
	if n := c.Open(); n > 2 {
		t.Fatalf("%d files open", n)
	}
}

func TestMissingFile(t *testing.T) {
	c := New(vfs.NewMem(), 2)
	ss, _ := slots(t, c, 1)
	if _, err := ss[0].Acquire(false); err == nil {
		t.Fatal("a missing file opens")
	}
	if c.Open() != 0 {
		t.Fatal(c.Open())
	}
}

// TestConcurrent is for the race detector.
func TestConcurrent(t *testing.T) {
	c := New(vfs.NewMem(), 2)
	ss, _ := slots(t, c, 5)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 300 {
				s := ss[(g+i)%len(ss)]
				h, err := s.Acquire(true)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := h.WriteAt([]byte{1}, 0); err != nil {
					t.Error(err)
				}
				if i%17 == 0 {
					s.Drop()
				}
				h.Release()
			}
		})
	}
	wg.Wait()
	if n := c.Open(); n > 2 {
		t.Fatalf("%d files open", n)
	}
}
