package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-io/tidemark/internal/vfs"
)

// version is the only one Kafka ever wrote for these files.
const version = 0

// encode writes the frame that every checkpoint shares: version, number of
// entries, one entry a line.
func encode(lines []string) []byte {
	size := 16
	for _, l := range lines {
		size += len(l) + 1
	}
	b := make([]byte, 0, size)
	b = strconv.AppendInt(b, version, 10)
	b = append(b, '\n')
	b = strconv.AppendInt(b, int64(len(lines)), 10)
	b = append(b, '\n')
	for _, l := range lines {
		b = append(b, l...)
		b = append(b, '\n')
	}
	return b
}

// decode checks the frame and hands each entry line to entry. As in
// CheckpointFile.java, an empty file and a file with only a version hold no
// entries: Kafka makes the file before it first writes it.
func decode(data []byte, entry func(line string) error) error {
	if !utf8.Valid(data) {
		return errors.New("not UTF-8 text")
	}
	lines := splitLines(string(data))
	if len(lines) == 0 {
		return nil
	}
	v, err := strconv.ParseInt(lines[0], 10, 32)
	if err != nil {
		return fmt.Errorf("line 1: %q is not a version", lines[0])
	}
	if v != version {
		return fmt.Errorf("version %d, expected %d", v, version)
	}
	if len(lines) == 1 {
		return nil
	}
	want, err := strconv.ParseInt(lines[1], 10, 32)
	if err != nil || want < 0 {
		return fmt.Errorf("line 2: %q is not a number of entries", lines[1])
	}
	if have := int64(len(lines) - 2); have != want {
		return fmt.Errorf("%d entries announced, %d found", want, have)
	}
	for i, l := range lines[2:] {
		if err := entry(l); err != nil {
			return fmt.Errorf("line %d: %w", i+3, err)
		}
	}
	return nil
}

// splitLines cuts at \n, \r\n or \r, as java.io.BufferedReader does; a last
// line without an end counts.
func splitLines(s string) []string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.ReplaceAll(s, "\r", "\n")
	s = strings.TrimSuffix(s, "\n")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

func read(fsys vfs.FS, path string, parse func(data []byte) error) error {
	data, err := ReadFile(fsys, path, MaxFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := parse(data); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrCorrupt, err)
	}
	return nil
}
