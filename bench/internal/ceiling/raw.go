package ceiling

import (
	"encoding/binary"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tidemark-io/tidemark/bench/internal/load"
)

func fdatasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// ServeRaw answers load.RawRequest on l from the file name.
func ServeRaw(l net.Listener, name string) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_ = rawConn(c.(*net.TCPConn), name) // the client closes when it has enough
		}()
	}
}

func rawConn(c *net.TCPConn, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	head := make([]byte, load.RawRequestBytes)
	for {
		if _, err := io.ReadFull(c, head); err != nil {
			return err
		}
		off, left := int64(binary.BigEndian.Uint64(head)), int(binary.BigEndian.Uint32(head[8:]))
		var failed error
		err := raw.Write(func(fd uintptr) bool {
			for left > 0 {
				n, err := unix.Sendfile(int(fd), int(f.Fd()), &off, left)
				if err == unix.EAGAIN {
					return false
				}
				if err != nil || n == 0 {
					failed = err
					return true
				}
				left -= n
			}
			return true
		})
		if err != nil || failed != nil || left > 0 {
			return io.ErrUnexpectedEOF
		}
	}
}
