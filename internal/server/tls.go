package server

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/telemetry"
	"github.com/tidemark-io/tidemark/internal/tlsconf"
)

// Bounds of the files of a TLS listener.
const (
	// tlsCheckEvery is how often a new connection looks whether a file changed.
	tlsCheckEvery = 2 * time.Second
	// maxStoreBytes is the largest key or trust store that is read.
	maxStoreBytes = 16 << 20
)

// listenerTLS is what a TLS listener serves with. Its files are looked at when
// somebody connects, and read beside the connection, which is served with what is
// there: a folder that hangs holds nobody up. A file that cannot be used changes
// nothing but the log and a metric.
type listenerTLS struct {
	name    string
	log     *slog.Logger
	current atomic.Pointer[tlsconf.Material]
	taken   atomic.Int64 // new keys that serve, and
	refused atomic.Int64 // those that could not

	lastCheck atomic.Int64 // of the files, in nanoseconds since the epoch
	checking  atomic.Bool  // a goroutine is at it

	mu       sync.Mutex // of all below; held while files are read
	settings tlsconf.Settings
	stamps   []os.FileInfo // of the files when they were read last; nil: not there
}

// newListenerTLS reads the stores of a listener. What is wrong in them is a
// *config.Error.
func newListenerTLS(name string, s tlsconf.Settings, log *slog.Logger) (*listenerTLS, error) {
	l := &listenerTLS{name: name, log: log, settings: s, stamps: stampsOf(s.Files())}
	l.lastCheck.Store(time.Now().UnixNano())
	m, err := tlsconf.Server(s, readStore, time.Now())
	if err != nil {
		return nil, config.TLSError(err)
	}
	for _, w := range m.Warnings {
		log.Warn(w)
	}
	l.current.Store(m)
	return l, nil
}

// config is the listener's configuration: each handshake takes the newest material.
func (l *listenerTLS) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			l.look()
			return l.current.Load().Config, nil
		},
	}
}

// look starts a check of the files when the last one is a while ago.
func (l *listenerTLS) look() {
	now := time.Now().UnixNano()
	if now-l.lastCheck.Load() < int64(tlsCheckEvery) || !l.checking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer l.checking.Store(false)
		l.refresh()
		l.lastCheck.Store(time.Now().UnixNano())
	}()
}

// refresh reads the stores again if a file is another than it was.
func (l *listenerTLS) refresh() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := stampsOf(l.settings.Files())
	if slices.EqualFunc(l.stamps, now, sameFile) {
		return
	}
	l.stamps = now
	l.apply(l.settings, "a file changed")
}

// apply serves new connections with s. mu is held.
func (l *listenerTLS) apply(s tlsconf.Settings, why string) {
	m, err := tlsconf.Server(s, readStore, time.Now())
	if err == nil {
		err = tlsconf.MayReplace(l.current.Load(), m, s)
	}
	if err != nil {
		l.refused.Add(1)
		l.log.Error("the new certificate cannot be used; the old one stays", "listener", l.name, "because", why, "error", err)
		return
	}
	for _, w := range m.Warnings {
		l.log.Warn(w)
	}
	l.settings = s
	l.current.Store(m)
	l.taken.Add(1)
	l.log.Info("new connections get a new certificate", "listener", l.name, "because", why, "subject", m.Leaf.Subject, "until", m.Leaf.NotAfter)
}

// followKeys gives TLS listeners the keys that this broker's dynamic settings name
// (DynamicBrokerConfig). As in Kafka, those with a listener's prefix count, and only
// the stores can change while it serves.
func (s *Server) followKeys(d *image.Delta, im *image.Image) {
	own := strconv.Itoa(int(s.cfg.NodeID))
	for r := range d.ChangedConfigs() {
		if r.Type != image.ResourceBroker || r.Name != own {
			continue
		}
		for name, l := range s.tls {
			l.follow(reconfigured(s.cfg.Static, im.Configs.Get(r.Type, r.Name), name))
		}
	}
}

// reconfigured are a listener's settings with what of dynamic may change them.
func reconfigured(static config.Layer, dynamic map[string]string, listener string) (tlsconf.Settings, error) {
	layer := config.Layer{Source: config.SourceDynamicBroker, Values: map[string]string{}}
	for _, key := range tlsconf.Reconfigurable {
		name := config.ListenerPrefix(listener) + key
		if v, ok := dynamic[name]; ok {
			layer.Values[name] = v
		}
	}
	return config.ListenerTLS(config.Effective(config.ScopeBroker, layer, static), listener)
}

// follow serves with other settings, if they are others.
func (l *listenerTLS) follow(s tlsconf.Settings, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.refused.Add(1)
		l.log.Error("the new keys cannot be used; the old ones stay", "listener", l.name, "error", err)
		return
	}
	if s.Equal(l.settings) {
		return
	}
	l.stamps = stampsOf(s.Files())
	l.apply(s, "its settings changed")
}

func (l *listenerTLS) sample() telemetry.TLSSample {
	return telemetry.TLSSample{Expires: l.current.Load().Expires(), Reloaded: l.taken.Load(), Refused: l.refused.Load()}
}

func stampsOf(files []string) []os.FileInfo {
	out := make([]os.FileInfo, len(files))
	for i, f := range files {
		out[i], _ = os.Stat(f)
	}
	return out
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// readStore reads a key or trust store.
func readStore(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxStoreBytes+1))
	if err == nil && len(data) > maxStoreBytes {
		err = fmt.Errorf("it has more than %d bytes: it is no key store", maxStoreBytes)
	}
	return data, err
}

// openTLS reads the keys of the listeners whose protocol is SSL.
func (s *Server) openTLS() error {
	s.tls = map[string]*listenerTLS{}
	for _, e := range s.cfg.Listeners {
		settings, ok := s.cfg.TLS[e.Listener]
		if !ok {
			continue
		}
		l, err := newListenerTLS(e.Listener, settings, s.log)
		if err != nil {
			return err
		}
		s.tls[e.Listener] = l
	}
	return nil
}
