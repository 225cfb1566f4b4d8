package vfs_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tidemark-io/tidemark/internal/vfs"
)

// The blocks of a reservation are taken and given back.
func TestReservedBlocks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := vfs.OS().Create(name)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("abc"), 0)
	must(t, err)
	blocks := func() int64 {
		st, err := vfs.OS().Stat(name)
		must(t, err)
		return st.Sys().(*syscall.Stat_t).Blocks * 512
	}
	err = f.Reserve(3, 1<<20)
	if unsupported := errors.Is(err, errors.ErrUnsupported); !unsupported {
		must(t, err)
		if n := blocks(); n < 1<<20 {
			t.Errorf("%d bytes of blocks after reserving a MiB", n)
		}
	}
	must(t, f.Unreserve())
	if n := blocks(); n > 64<<10 {
		t.Errorf("%d bytes of blocks after giving it back", n)
	}
}
