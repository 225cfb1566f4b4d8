package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// TestExplain: what keeps a server from starting comes with the way out of it,
// and not with that of something else.
func TestExplain(t *testing.T) {
	bind := func(errno syscall.Errno) error {
		return &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", errno)}
	}
	for _, c := range []struct {
		err        error
		want, lack string
	}{
		{bind(syscall.EADDRINUSE), "take another port", "--data-dir"},
		{bind(syscall.EACCES), "a port above 1023", "--data-dir"},
		{bind(syscall.EADDRNOTAVAIL), "an address of this machine", "--data-dir"},
		{&os.PathError{Op: "mkdir", Path: "/x", Err: syscall.EACCES}, "a folder that this user may write to", "port"},
		{fmt.Errorf("d is in use: %w", syscall.EWOULDBLOCK), "--data-dir DIR", "1023"},
	} {
		err := explain(fmt.Errorf("open: %w", c.err))
		var e *app.Error
		if !errors.As(err, &e) || !strings.Contains(e.Hint, c.want) || strings.Contains(e.Hint, c.lack) {
			t.Errorf("%v: fix %q, want %q and not %q", c.err, e.Hint, c.want, c.lack)
		}
	}
}
