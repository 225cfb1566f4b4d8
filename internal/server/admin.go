package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/telemetry"
	"github.com/tidemark-io/tidemark/internal/types"
)

// serveAdmin starts /metrics, /healthz, /readyz and /debug/pprof.
func (s *Server) serveAdmin(context.Context) error {
	s.collectMetrics()
	if s.adminListener != nil {
		s.admin = telemetry.ServeAdmin(telemetry.AdminOptions{
			Listener: s.adminListener, Registry: s.metrics, Ready: s.ready, Logger: s.log,
		})
	}
	return nil
}

// ready is the readiness probe: the node is ready when a write commits, not
// merely when the process is there.
func (s *Server) ready(ctx context.Context) error {
	if err := s.node.Probe(ctx); err != nil {
		return fmt.Errorf("a probe record did not commit to the metadata log: %w", err)
	}
	for _, d := range s.dirs.Dirs {
		if err := d.Err(); err != nil {
			return err
		}
	}
	return nil
}

// banner prints the start-up screen.
func (s *Server) banner() {
	var b strings.Builder
	fmt.Fprintf(&b, "Tidemark %s\n\n", s.opts.Version)
	row := func(name, value string) { fmt.Fprintf(&b, "  %-12s %s\n", name, value) }
	row("cluster", s.dirs.ClusterID)
	row("node", fmt.Sprint(s.cfg.NodeID))
	for _, e := range s.brokerEndpoints() {
		row("clients", fmt.Sprintf("%s (%s)", net.JoinHostPort(e.Host, fmt.Sprint(e.Port)), s.protocolOf(e)))
	}
	for _, e := range s.controllerEndpoints() {
		row("controllers", fmt.Sprintf("%s (%s)", net.JoinHostPort(e.Host, fmt.Sprint(e.Port)), e.Listener))
	}
	if s.admin != nil {
		row("admin", fmt.Sprintf("http://%s/metrics /healthz /readyz", s.admin.Addr()))
	}
	for _, d := range s.dirs.Dirs {
		row("data", d.Path)
	}
	row("durability", s.durability())
	if flags, ok := s.clientFlags(); ok {
		fmt.Fprintf(&b, "\nA first record:\n  echo hello | %[1]s produce first%[2]s\n  %[1]s consume first --count 1%[2]s\n",
			cmp.Or(s.opts.Program, "tidemark"), flags)
	}
	fmt.Fprintln(s.opts.Out, b.String())
}

// clientFlags are what a command on this machine needs to reach this broker: by a
// plaintext listener where there is one.
func (s *Server) clientFlags() (string, bool) {
	all := s.brokerEndpoints()
	if len(all) == 0 {
		return "", false
	}
	i := slices.IndexFunc(all, func(e types.Endpoint) bool { return s.tls[e.Listener] == nil })
	e, flags := all[max(i, 0)], ""
	if addr := net.JoinHostPort(e.Host, fmt.Sprint(e.Port)); addr != "127.0.0.1:9092" {
		flags = " --bootstrap-server " + addr
	}
	if i < 0 {
		flags += " --command-config client.properties"
	}
	return flags, true
}

// protocolOf names a listener and, where its name does not say it, its protocol;
// with the client certificates that it asks for.
func (s *Server) protocolOf(e types.Endpoint) string {
	out := e.Listener
	if p := config.ProtocolName(e.SecurityProtocol); p != out {
		out += ", " + p
	}
	if t := s.cfg.TLS[e.Listener]; t.ClientAuth == tls.RequireAndVerifyClientCert {
		out += ", client certificate required"
	} else if t.ClientAuth != tls.NoClientCert {
		out += ", client certificate requested"
	}
	return out
}

// durability says in words what an acknowledgement is worth on this node.
func (s *Server) durability() string {
	d := s.cfg.Durability
	switch d.String() {
	case "strict":
		return "strict: acknowledged means fsynced; a power cut loses nothing acknowledged"
	case "replicated":
		return "replicated: acknowledged means in the memory of every in-sync replica; a power cut of all of them loses the last second"
	}
	return d.String() + ": acknowledged means written to memory; a power cut loses the last second"
}
