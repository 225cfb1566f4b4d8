package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/tidemark-io/tidemark/internal/vfs"
)

// TempSuffix ends the name of the file that WriteFile fills before the rename.
// A file of that name found at start-up is a leftover and may be removed.
const TempSuffix = ".tmp"

// ErrCorrupt marks a file whose bytes are not what its format allows. The
// error text names the file and the reason.
var ErrCorrupt = errors.New("corrupt file")

// MaxFileBytes bounds what ReadFile takes into memory: about a million entries.
const MaxFileBytes = 64 << 20

// WriteFile replaces path by data so that a power cut at any moment leaves
// either the old content or the new: temporary file, fsync, rename, fsync of
// the folder. On error the old content is still there; the temporary file is
// removed when that is possible.
func WriteFile(fs vfs.FS, path string, data []byte) error {
	return writeFile(fs, path, data, true)
}

// WriteFileNoSync replaces path by data without waiting for the disk. A power
// cut may leave the old content, the new, or a file cut short, so the format
// must carry a checksum and the caller must have another source.
func WriteFileNoSync(fs vfs.FS, path string, data []byte) error {
	return writeFile(fs, path, data, false)
}

func writeFile(fs vfs.FS, path string, data []byte, sync bool) error {
	tmp := path + TempSuffix
	if err := fill(fs, tmp, data, sync); err != nil {
		dropTemp(fs, tmp)
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := fs.Rename(tmp, path); err != nil {
		dropTemp(fs, tmp)
		return fmt.Errorf("write %s: %w", path, err)
	}
	if !sync {
		return nil
	}
	if err := fs.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write %s: sync its folder: %w", path, err)
	}
	return nil
}

func fill(fs vfs.FS, name string, data []byte, sync bool) error {
	f, err := fs.Create(name)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		return errors.Join(err, f.Close())
	}
	if sync {
		if err := f.Sync(); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// dropTemp removes a temporary file that will not be used. That it cannot be
// removed changes nothing: the next write truncates it.
func dropTemp(fs vfs.FS, tmp string) { _ = fs.Remove(tmp) }

// ReadFile returns the whole of path, refusing more than limitBytes. A missing
// file is fs.ErrNotExist.
func ReadFile(fsys vfs.FS, path string, limitBytes int64) (_ []byte, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limitBytes {
		return nil, fmt.Errorf("%s: %d bytes, more than the %d that such a file can have: %w", path, size, limitBytes, ErrCorrupt)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b[:n], nil
}
