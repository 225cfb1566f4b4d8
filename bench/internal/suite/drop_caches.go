package suite

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCaches empties the page cache; what is dirty is written first.
func dropCaches() error {
	unix.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("1\n"), 0o644)
}
