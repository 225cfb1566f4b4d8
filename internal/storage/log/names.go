package log

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/internal/types"
)

// Suffixes of partition folders that are not in service (LogFileUtils.java).
const (
	deleteSuffix = "-delete"
	straySuffix  = "-stray"
	futureSuffix = "-future"
)

// ParseFolderName reads a partition folder's name: "topic-partition", or
// "topic-partition.id-delete" and the like, whose suffix is returned.
func ParseFolderName(name string) (tp types.TopicPartition, suffix string, err error) {
	bad := fmt.Errorf("folder %q is not named topic-partition or topic-partition.id-delete", name)
	for _, s := range []string{deleteSuffix, straySuffix, futureSuffix} {
		if rest, ok := strings.CutSuffix(name, s); ok {
			i := strings.LastIndexByte(rest, '.')
			if i < 0 {
				return tp, "", bad
			}
			name, suffix = rest[:i], s
			break
		}
	}
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return tp, "", bad
	}
	p, perr := strconv.ParseInt(name[i+1:], 10, 32)
	if perr != nil || p < 0 {
		return tp, "", bad
	}
	return types.TopicPartition{Topic: name[:i], Partition: int32(p)}, suffix, nil
}

// maxFolderName is what file systems allow; a long topic name is cut to fit.
const maxFolderName = 255

// retiredName is the name of a folder that goes out of service
// (LocalLog.logDirNameWithSuffixCappedLength).
func retiredName(tp types.TopicPartition, suffix string) string {
	var id [16]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	tail := "-" + strconv.Itoa(int(tp.Partition)) + "." + hex.EncodeToString(id[:]) + suffix
	return tp.Topic[:min(len(tp.Topic), maxFolderName-len(tail))] + tail
}
