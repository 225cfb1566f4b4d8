package recordschema

import "fmt"

// frameVersion is the version of the envelope round every metadata record
// (AbstractApiMessageSerde in Apache Kafka 4.3).
const frameVersion = 1

// MetadataRecord is one record of the __cluster_metadata log. The record types
// of this package implement it by pointer; nothing else can.
type MetadataRecord interface {
	// Key is the record's api key.
	Key() int16
	// Version is the version that AppendFrame writes: the one that
	// metadata.version 30 calls for.
	Version() int16

	walk(c *codec, version int16)
}

// AppendFrame appends r in its frame (uvarint frame version 1, api key,
// version, body) at r.Version() and returns the extended slice.
func AppendFrame(dst []byte, r MetadataRecord) []byte {
	return appendFrame(dst, r, r.Version())
}

// AppendFrameVersion is AppendFrame at another version. Fields that the
// version does not have are left out, so it is for talking to older software
// and for tests.
func AppendFrameVersion(dst []byte, r MetadataRecord, version int16) ([]byte, error) {
	if newest := NewestVersion(r.Key()); version < 0 || version > newest {
		return dst, fmt.Errorf("%w: %s has versions 0-%d, not %d", ErrUnsupportedVersion, Name(r), newest, version)
	}
	return appendFrame(dst, r, version), nil
}

func appendFrame(dst []byte, r MetadataRecord, version int16) []byte {
	c := codec{buf: dst}
	c.writeUvarint(frameVersion)
	c.writeUvarint(uint32(r.Key()))
	c.writeUvarint(uint32(version))
	r.walk(&c, version)
	return c.buf
}

// ParseFrame reads one framed record, any version. Trailing bytes are an error.
// The result aliases nothing of b.
func ParseFrame(b []byte) (MetadataRecord, error) {
	r, _, err := ParseFrameVersion(b)
	return r, err
}

// ParseFrameVersion is ParseFrame that also says which version it read.
func ParseFrameVersion(b []byte) (MetadataRecord, int16, error) {
	c := codec{buf: b, decode: true}
	fv := c.readUvarint()
	key := c.readUvarint()
	version := c.readUvarint()
	if c.err != nil {
		return nil, 0, fmt.Errorf("metadata record frame: %w", c.err)
	}
	if fv != frameVersion {
		return nil, 0, fmt.Errorf("%w: metadata record frame version %d, want %d", ErrUnsupportedVersion, fv, frameVersion)
	}
	r := newRecord(key)
	if r == nil {
		return nil, 0, fmt.Errorf("%w: metadata record key %d (version %d)", ErrUnknownRecord, key, version)
	}
	if newest := infos[key].newest; version > uint32(newest) {
		return nil, 0, fmt.Errorf("%w: %s (key %d) has versions 0-%d, not %d",
			ErrUnsupportedVersion, Name(r), key, newest, version)
	}
	r.walk(&c, int16(version))
	if c.err == nil && len(c.buf) != 0 {
		c.fail("%d bytes left over", len(c.buf))
	}
	if c.err != nil {
		return nil, 0, fmt.Errorf("%s (key %d) version %d: %w", Name(r), key, version, c.err)
	}
	return r, int16(version), nil
}
