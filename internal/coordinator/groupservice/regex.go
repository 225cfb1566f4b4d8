package groupservice

import (
	"time"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/consumer"
	"github.com/tidemark-io/tidemark/internal/coordinator/runtime"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// maxResolving is how many groups' regular expressions are looked at at once;
// each keeps a core busy.
const maxResolving = 2

// resolve finds the topics of a group's regular expressions beside the shard,
// which goes on meanwhile, and hands them back.
func (s *Service) resolve(t *consumer.RegexTask) {
	s.background(func() {
		select {
		case s.resolving <- struct{}{}:
			defer func() { <-s.resolving }()
		case <-s.stopping.Done():
			return
		}
		start := time.Now()
		if !t.Resolve(func() bool { return s.stopping.Err() != nil }) {
			return
		}
		s.opts.Logger.Info("looked for topics that match regular expressions", "group", t.Group, "expressions", len(t.Expressions), "topics", t.Topics, "took", time.Since(start))
		s.resolved(t)
	})
}

// resolved tells the group's shard, until it listens or is somebody else's: it
// takes no other look while it waits for this one.
func (s *Service) resolved(t *consumer.RegexTask) {
	tp, err := s.shardOf(t.Group)
	if err != nil {
		return
	}
	taken := false // of the shard's turn, before done
	runtime.Write(s.runtime, tp, func(g *group.Shard) (coordinator.Result[bool], error) {
		taken = true
		return g.RegexResolved(s.now(), t), nil
	}, func(_ bool, err error) {
		switch {
		case err == nil, kerrors.CodeOf(err) == kerrors.NotCoordinator:
		case taken: // could not be written: a later heartbeat asks for another look
			s.opts.Logger.Warn("cannot write what regular expressions match", "group", t.Group, "err", err)
		default:
			s.later(func() { s.resolved(t) })
		}
	})
}
