package logdir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/magiconair/properties"

	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// MetaPropertiesFile is the name of the file that says whose a folder is.
const MetaPropertiesFile = "meta.properties"

// maxSmallFileBytes bounds the files of this package.
const maxSmallFileBytes = 1 << 20

// MetaProperties is the content of meta.properties, version 1.
type MetaProperties struct {
	ClusterID   string
	NodeID      int32
	DirectoryID types.UUID // ZeroUUID when the file has none (before KIP-858)
}

// EncodeMetaProperties returns the file content as java.util.Properties.store
// writes it: a comment with the time, then the keys.
func EncodeMetaProperties(m MetaProperties, now time.Time) []byte {
	b := fmt.Appendf(nil, "#\n#%s\n", now.UTC().Format(time.UnixDate))
	b = fmt.Appendf(b, "node.id=%d\n", m.NodeID)
	if !m.DirectoryID.IsZero() {
		b = fmt.Appendf(b, "directory.id=%s\n", m.DirectoryID)
	}
	return fmt.Appendf(b, "version=1\ncluster.id=%s\n", escape(m.ClusterID))
}

// escape writes a value as Java does to a character stream.
func escape(value string) string {
	var b strings.Builder
	for i, r := range value {
		switch {
		case r == ' ' && i == 0, strings.ContainsRune(`\=:#!`, r):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\f':
			b.WriteString(`\f`)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// DecodeMetaProperties parses meta.properties. Unknown keys are ignored, as
// Kafka does; version 0, which ZooKeeper-based brokers wrote, is refused.
func DecodeMetaProperties(data []byte) (MetaProperties, error) {
	var m MetaProperties
	l := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := l.LoadBytes(data)
	if err != nil {
		return m, fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
	}
	switch v := p.GetString("version", "0"); v {
	case "1":
	case "0":
		return m, corrupt("version 0 belongs to a ZooKeeper-based broker; migrate it with Apache Kafka 3.9 first")
	default:
		return m, corrupt("version %q, expected 1", v)
	}
	node, ok := p.Get("node.id")
	if !ok {
		return m, corrupt("node.id is missing")
	}
	id, err := strconv.ParseInt(node, 10, 32)
	if err != nil || id < 0 {
		return m, corrupt("node.id %q is not a node id", node)
	}
	m.NodeID = int32(id)
	if m.ClusterID = p.GetString("cluster.id", ""); m.ClusterID == "" {
		return m, corrupt("cluster.id is missing")
	}
	if s, ok := p.Get("directory.id"); ok {
		if m.DirectoryID, err = types.ParseUUID(s); err != nil {
			return m, corrupt("directory.id: %v", err)
		}
		if m.DirectoryID.Reserved() {
			return m, corrupt("directory.id %s is reserved", m.DirectoryID)
		}
	}
	return m, nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", checkpoint.ErrCorrupt, fmt.Sprintf(format, args...))
}

// ReadMetaProperties reads the meta.properties of a folder without opening the
// folder. A folder without one gives ErrNotFormatted.
func ReadMetaProperties(fsys vfs.FS, dir string) (MetaProperties, error) {
	path := filepath.Join(dir, MetaPropertiesFile)
	data, err := checkpoint.ReadFile(fsys, path, maxSmallFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return MetaProperties{}, fmt.Errorf("%s: %w", dir, ErrNotFormatted)
	}
	if err != nil {
		return MetaProperties{}, fmt.Errorf("read %s: %w", path, err)
	}
	m, err := DecodeMetaProperties(data)
	if err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func writeMetaProperties(fsys vfs.FS, dir string, m MetaProperties, now time.Time) error {
	return checkpoint.WriteFile(fsys, filepath.Join(dir, MetaPropertiesFile), EncodeMetaProperties(m, now))
}
