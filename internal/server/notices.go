package server

import (
	"slices"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/types"
)

// warnAboutCompaction says in the log, once per change, that a topic asks for a
// cleaner that does not run yet, of its own or through its broker: a policy that
// is stored and not in force must never pass silently. What the broker's own file
// says is in the warnings of the configuration.
func (s *Server) warnAboutCompaction(d *image.Delta, im *image.Image) {
	for r := range d.ChangedConfigs() {
		key, of := "cleanup.policy", "topic "+r.Name
		switch {
		case r.Type == image.ResourceBroker:
			key, of = "log.cleanup.policy", "every topic without a policy of its own"
		case r.Type != image.ResourceTopic, types.IsInternalTopic(r.Name):
			continue
		}
		if v, set := im.Configs.Value(r.Type, r.Name, key); set && slices.Contains(config.SplitList(v), "compact") {
			s.log.Warn("cleanup.policy=compact is stored but no cleaner runs in this release: every record is kept; only \"delete\" removes segments",
				"of", of, "policy", v)
		}
	}
}
