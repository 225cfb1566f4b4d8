package ceiling

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/record"
)

// Server writes what it is sent to one file a partition in Dir.
type Server struct {
	Dir  string
	Sync bool // fdatasync before each answer

	mu    sync.Mutex
	topic string
	files map[int32]*file
}

type file struct {
	f   *os.File
	mu  sync.Mutex
	end int64
}

// Serve answers Produce requests of version 9 on l.
func (s *Server) Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			if err := s.conn(c); !errors.Is(err, io.EOF) { // it returns only with an error
				fmt.Fprintln(os.Stderr, "ceiling:", err)
			}
		}()
	}
}

func (s *Server) conn(c net.Conn) error {
	var head [4]byte
	var frame, out []byte
	req, resp := kmsg.NewPtrProduceRequest(), kmsg.NewPtrProduceResponse()
	req.SetVersion(9)
	resp.SetVersion(9)
	resp.Topics = []kmsg.ProduceResponseTopic{{Partitions: make([]kmsg.ProduceResponseTopicPartition, 1)}}
	for {
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(head[:]))
		if cap(frame) < n {
			frame = make([]byte, n)
		}
		frame = frame[:n]
		if _, err := io.ReadFull(c, frame); err != nil {
			return err
		}
		if frame[0] != 0 || frame[1] != 0 { // not Produce: somebody asks whether we are up
			if _, err := c.Write(append([]byte{0, 0, 0, 4}, frame[4:8]...)); err != nil {
				return err
			}
			continue
		}
		client := int(binary.BigEndian.Uint16(frame[8:]))
		if err := req.UnsafeReadFrom(frame[10+client+1:]); err != nil {
			return err
		}
		t := &req.Topics[0]
		p, rp := &t.Partitions[0], &resp.Topics[0].Partitions[0]
		resp.Topics[0].Topic, rp.Partition = t.Topic, p.Partition
		if err := record.Batch(p.Records).Verify(); err != nil {
			return err
		}
		at, err := s.write(t.Topic, p.Partition, p.Records)
		if err != nil {
			return err
		}
		rp.BaseOffset = at
		out = append(out[:0], 0, 0, 0, 0)
		out = append(append(out, frame[4:8]...), 0) // correlation id, no tags
		out = resp.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := c.Write(out); err != nil {
			return err
		}
	}
}

func (s *Server) write(topic string, partition int32, b []byte) (int64, error) {
	f, err := s.file(topic, partition)
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	at := f.end
	f.end += int64(len(b))
	f.mu.Unlock()
	if _, err := f.f.WriteAt(b, at); err != nil {
		return 0, err
	}
	if s.Sync {
		return at, fdatasync(f.f)
	}
	return at, nil
}

// file opens a partition's file; a new topic replaces the one before.
func (s *Server) file(topic string, partition int32) (*file, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if topic != s.topic {
		for _, f := range s.files {
			f.f.Close()
			_ = os.Remove(f.f.Name()) // the folder goes at the end
		}
		s.topic, s.files = topic, map[int32]*file{}
	}
	if f := s.files[partition]; f != nil {
		return f, nil
	}
	name := filepath.Join(s.Dir, fmt.Sprintf("%s-%d.log", topic, partition))
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	s.files[partition] = &file{f: f}
	return s.files[partition], nil
}
