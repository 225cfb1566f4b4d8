package replica

import (
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/storage/log"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/types"
)

// highWatermarkFile is Kafka's name for the checkpoint in every data folder.
const highWatermarkFile = "replication-offset-checkpoint"

// checkpoints remembers what each folder's file says, so that a folder whose
// high watermarks did not move costs no write.
type checkpoints struct {
	mu      sync.Mutex
	written map[*logdir.Dir]map[types.TopicPartition]int64
}

// load gives every log the high watermark of its folder's checkpoint. A missing
// or unreadable file is not fatal: a leader finds its high watermark again, and
// a lone leader has it at once.
func (c *checkpoints) load(dirs []*logdir.Dir, logs *log.Manager, logger *slog.Logger) {
	c.written = map[*logdir.Dir]map[types.TopicPartition]int64{}
	for _, d := range dirs {
		if d.IsOffline() {
			continue
		}
		offsets, err := checkpoint.ReadOffsets(d.FS(), d.Join(highWatermarkFile))
		if err != nil {
			logger.Warn("high watermark checkpoint is unreadable, starting from the log start", "dir", d.Path, "err", err)
			continue
		}
		c.written[d] = offsets
	}
	for _, l := range logs.All() {
		if hw, ok := c.written[l.Dir()][l.TopicPartition()]; ok {
			l.SetHighWatermark(hw)
		}
	}
}

// CheckpointHighWatermarks writes each folder's high watermarks where they
// moved. What cannot be written now is written with the next checkpoint.
func (m *Manager) CheckpointHighWatermarks() {
	c := &m.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	byDir := map[*logdir.Dir]map[types.TopicPartition]int64{}
	for _, l := range m.logs.All() {
		d := l.Dir()
		if byDir[d] == nil {
			byDir[d] = map[types.TopicPartition]int64{}
		}
		byDir[d][l.TopicPartition()] = l.HighWatermark()
	}
	for _, d := range m.dirs() {
		if d.IsOffline() || maps.Equal(byDir[d], c.written[d]) {
			continue
		}
		if err := checkpoint.WriteOffsets(d.FS(), d.Join(highWatermarkFile), byDir[d]); err != nil {
			m.checkpointFailed(d, err)
			continue
		}
		c.written[d] = byDir[d]
	}
}

// checkpointFailed keeps the folder: the checkpoint is rewritten soon, and a
// full disk must not take the folder down. A failed fsync of a log does.
func (m *Manager) checkpointFailed(d *logdir.Dir, err error) {
	m.opts.Logger.Error("cannot write the high watermark checkpoint", "dir", d.Path, "err", err)
}

// dirs are the data folders. Without Options.Dirs they are those that hold logs.
func (m *Manager) dirs() []*logdir.Dir {
	if len(m.opts.Dirs) > 0 {
		return m.opts.Dirs
	}
	var out []*logdir.Dir
	for _, l := range m.logs.All() {
		if !slices.Contains(out, l.Dir()) {
			out = append(out, l.Dir())
		}
	}
	return out
}
