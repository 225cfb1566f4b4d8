package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/internal/types"
)

// build types the settings and checks them against each other
// (KafkaConfig.validateValues of Apache Kafka 4.3 and our own limits).
func (l *loader) build(c *ServerConfig) error {
	r := Effective(ScopeBroker, c.Static)
	for _, step := range []func(*ServerConfig, Resolved) error{
		l.buildIdentity, l.buildDirs, l.buildListeners, l.buildControllerListeners, l.checkRoles, l.checkNumbers, l.checkPairs,
	} {
		if err := step(c, r); err != nil {
			return err
		}
	}
	c.fill(r)
	return l.checkLast(c)
}

func (l *loader) buildIdentity(c *ServerConfig, r Resolved) error {
	c.NodeID = int32(r.Int("node.id"))
	if c.NodeID < 0 {
		return l.refuse("node.id", "must be at least 0")
	}
	if r.Int("broker.id") != r.Int("node.id") {
		return l.refuse("broker.id", "differs from node.id, which is %d; remove one of them", c.NodeID)
	}
	roles := r.List("process.roles")
	c.Broker = slices.Contains(roles, "broker")
	c.Controller = slices.Contains(roles, "controller")
	return nil
}

func (l *loader) buildDirs(c *ServerConfig, r Resolved) error {
	c.DataDirs = r.List("log.dirs")
	if len(c.DataDirs) == 0 {
		c.DataDirs = r.List("log.dir")
	}
	if len(c.DataDirs) == 0 {
		return l.refuse("log.dirs", "names no folder")
	}
	c.MetadataDir = r.String("metadata.log.dir")
	if c.MetadataDir == "" {
		c.MetadataDir = c.DataDirs[0]
	}
	cordoned := r.List("cordoned.log.dirs")
	for _, d := range cordoned {
		if d == "*" && len(cordoned) > 1 {
			return l.refuse("cordoned.log.dirs", "has * beside other folders")
		}
		if d != "*" && !slices.Contains(c.DataDirs, d) {
			return l.refuse("cordoned.log.dirs", "names %s, which is not in log.dirs", d)
		}
	}
	return nil
}

func (l *loader) buildListeners(c *ServerConfig, r Resolved) error {
	protos, err := protocols(r, !l.unset("listener.security.protocol.map"))
	if err != nil {
		return l.refuse("listener.security.protocol.map", "%v", err)
	}
	c.ListenerProtocols = protos
	all, err := endpoints(r.List("listeners"), protos, true)
	if err != nil {
		return l.refuse("listeners", "%v", err)
	}
	for _, n := range r.List("controller.listener.names") {
		c.ControllerListenerNames = append(c.ControllerListenerNames, strings.ToUpper(n))
	}
	c.Listeners, c.ControllerListeners = split(all, c.ControllerListenerNames)
	if err := l.buildTLS(c, r); err != nil {
		return err
	}
	advertised := all
	if !l.unset("advertised.listeners") {
		if advertised, err = endpoints(r.List("advertised.listeners"), protos, false); err != nil {
			return l.refuse("advertised.listeners", "%v", err)
		}
	}
	c.Advertised, _ = split(advertised, c.ControllerListenerNames)
	return l.checkAdvertised(c, r)
}

// split parts broker listeners from controller listeners.
func split(all []types.Endpoint, controllerNames []string) (brokers, controllers []types.Endpoint) {
	for _, e := range all {
		if slices.Contains(controllerNames, e.Listener) {
			controllers = append(controllers, e)
		} else {
			brokers = append(brokers, e)
		}
	}
	return brokers, controllers
}

func hasListener(list []types.Endpoint, name string) bool {
	return slices.ContainsFunc(list, func(e types.Endpoint) bool { return e.Listener == name })
}

func (l *loader) checkAdvertised(c *ServerConfig, r Resolved) error {
	for i, e := range c.Advertised {
		if e.Host == "0.0.0.0" || e.Host == "::" {
			if !l.unset("advertised.listeners") {
				return l.refuse("advertised.listeners", "%s is not an address that clients can connect to; write the host name they use", e.Host)
			}
			if e.Host == "0.0.0.0" {
				return l.refuse("listeners", "listens on every interface by 0.0.0.0, which clients cannot connect to; set advertised.listeners to the host name they use, or write %s://:%d", e.Listener, e.Port)
			}
			c.Advertised[i].Host = ""
		}
		if !hasListener(c.Listeners, e.Listener) {
			return l.refuse("advertised.listeners", "names listener %s, which is not in listeners", e.Listener)
		}
	}
	if !c.Broker {
		return nil
	}
	if len(c.Advertised) == 0 {
		return l.refuse("listeners", "has no listener for clients: all of them are in controller.listener.names")
	}
	name, err := l.interBroker(c, r)
	if err != nil {
		return err
	}
	c.InterBrokerListener = name
	return nil
}

// interBroker finds the listener that brokers use among each other.
func (l *loader) interBroker(c *ServerConfig, r Resolved) (string, error) {
	if v := r.String("inter.broker.listener.name"); v != "" {
		if !l.unset("security.inter.broker.protocol") {
			return "", l.refuse("inter.broker.listener.name", "is set together with security.inter.broker.protocol; set one of them")
		}
		if !hasListener(c.Advertised, strings.ToUpper(v)) {
			return "", l.refuse("inter.broker.listener.name", "is not among the advertised listeners")
		}
		return strings.ToUpper(v), nil
	}
	name := strings.ToUpper(r.String("security.inter.broker.protocol"))
	if hasListener(c.Advertised, name) {
		return name, nil
	}
	if len(c.Advertised) == 1 && l.unset("security.inter.broker.protocol") && len(c.ControllerListeners) > 0 {
		// A cluster of one talks to no other broker: do not ask for a name.
		return c.Advertised[0].Listener, nil
	}
	return "", l.refuse("inter.broker.listener.name", "is needed: no listener is called %s", name)
}

func (l *loader) buildControllerListeners(c *ServerConfig, r Resolved) error {
	c.ControllerAdvertised = slices.Clone(c.ControllerListeners)
	if !l.unset("advertised.listeners") {
		given, err := endpoints(r.List("advertised.listeners"), c.ListenerProtocols, false)
		if err != nil {
			return l.refuse("advertised.listeners", "%v", err)
		}
		_, given = split(given, c.ControllerListenerNames)
		for i, e := range c.ControllerAdvertised {
			for _, g := range given {
				if g.Listener == e.Listener {
					c.ControllerAdvertised[i] = g
				}
			}
		}
	}
	voters, _ := ParseVoters(r.String("controller.quorum.voters"))
	for i, e := range c.ControllerAdvertised {
		if e.Host != "" && e.Host != "0.0.0.0" {
			continue
		}
		c.ControllerAdvertised[i].Host = ""
		for _, v := range voters {
			if v.ID == c.NodeID {
				c.ControllerAdvertised[i].Host, c.ControllerAdvertised[i].Port = v.Host, v.Port
			}
		}
	}
	return nil
}

func (l *loader) checkRoles(c *ServerConfig, r Resolved) error {
	voters, err := ParseVoters(r.String("controller.quorum.voters"))
	if err != nil {
		return l.refuse("controller.quorum.voters", "%v", err)
	}
	isVoter := slices.ContainsFunc(voters, func(v Voter) bool { return v.ID == c.NodeID })
	switch {
	case len(c.ControllerListenerNames) == 0:
		return l.refuse("controller.listener.names", "must name a listener")
	case c.Controller && len(c.ControllerListeners) == 0:
		return l.refuse("listeners", "has no listener from controller.listener.names (%s): add %s://127.0.0.1:9093", strings.Join(c.ControllerListenerNames, ","), c.ControllerListenerNames[0])
	case !c.Controller && len(c.ControllerListeners) > 0:
		return l.refuse("controller.listener.names", "is in listeners, but this node is no controller")
	case !c.Broker && len(c.Listeners) > 0:
		return l.refuse("listeners", "has listener %s for clients, but this node is no broker", c.Listeners[0].Listener)
	case len(voters) > 0 && c.Controller && !isVoter:
		return l.refuse("controller.quorum.voters", "does not contain this node, %d, which is a controller", c.NodeID)
	case !c.Controller && isVoter:
		return l.refuse("controller.quorum.voters", "contains this node, %d, which is only a broker", c.NodeID)
	case !c.Controller && len(voters) == 0 && r.String("controller.quorum.bootstrap.servers") == "":
		return l.refuse("controller.quorum.voters", "must name the controllers: process.roles has only broker")
	case len(voters) > 1 || r.String("controller.quorum.bootstrap.servers") != "" && !isVoter:
		return l.refuse("controller.quorum.voters", "names other nodes; only a cluster of one is served yet")
	}
	for _, n := range c.ControllerListenerNames {
		if _, ok := c.ListenerProtocols[n]; !ok {
			return l.refuse("controller.listener.names", "%s has no entry in listener.security.protocol.map", n)
		}
		if c.Controller && !hasListener(c.ControllerListeners, n) {
			return l.refuse("controller.listener.names", "%s is not in listeners", n)
		}
	}
	return nil
}

// checkNumbers are Kafka's requirements on one family of keys each.
func (l *loader) checkNumbers(_ *ServerConfig, r Resolved) error {
	topic := Effective(ScopeTopic, r.layers...)
	if topic.Long("segment.ms") < 1 {
		return l.refuse("log.roll.ms", "must be at least 1")
	}
	if topic.Long("segment.jitter.ms") < 0 {
		return l.refuse("log.roll.jitter.ms", "must be at least 0")
	}
	if ms := topic.Long("retention.ms"); ms != -1 && ms < 1 {
		return l.refuse("log.retention.ms", "must be -1 (no limit) or at least 1")
	}
	if low, high := topic.Long("min.compaction.lag.ms"), topic.Long("max.compaction.lag.ms"); low > high {
		return l.refuse("log.cleaner.min.compaction.lag.ms", "is more than log.cleaner.max.compaction.lag.ms, which is %d", high)
	}
	if rf := r.Int("default.replication.factor"); rf < 1 {
		return l.refuse("default.replication.factor", "must be at least 1")
	}
	if _, err := parseIPOverrides(r.String("max.connections.per.ip.overrides")); err != nil {
		return l.refuse("max.connections.per.ip.overrides", "%v", err)
	}
	for _, k := range []string{"offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec"} {
		if codec := r.Int(k); codec < 0 || codec > 4 {
			return l.refuse(k, "must be 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)")
		}
	}
	return nil
}

// checkPairs are Kafka's requirements on two keys that must fit together.
func (l *loader) checkPairs(c *ServerConfig, r Resolved) error {
	if threads := r.Long("log.cleaner.threads"); threads > 0 && r.Long("log.cleaner.dedupe.buffer.size")/threads <= 1<<20 {
		return l.refuse("log.cleaner.dedupe.buffer.size", "must be more than 1 MiB for each of log.cleaner.threads (%d)", threads)
	}
	pairs := []struct{ low, high, why string }{
		{"replica.fetch.wait.max.ms", "replica.socket.timeout.ms", "every fetch that waits would time out"},
		{"replica.fetch.wait.max.ms", "replica.lag.time.max.ms", "followers would leave and join the in-sync replicas all the time"},
	}
	for _, p := range pairs {
		if r.Long(p.low) > r.Long(p.high) {
			return l.refuse(p.low, "is more than %s, which is %d: %s", p.high, r.Long(p.high), p.why)
		}
	}
	if queued := r.Long("queued.max.request.bytes"); queued > 0 && queued < r.Long("socket.request.max.bytes") {
		return l.refuse("queued.max.request.bytes", "is less than socket.request.max.bytes, which is %d: the largest request could never be read", r.Long("socket.request.max.bytes"))
	}
	if r.Int("max.connections.per.ip") == 0 && r.String("max.connections.per.ip.overrides") == "" {
		return l.refuse("max.connections.per.ip", "is 0 and max.connections.per.ip.overrides is empty: nobody could connect")
	}
	if idle := r.Long("connections.max.idle.ms"); idle >= 0 && r.Long("connection.failed.authentication.delay.ms") >= idle {
		return l.refuse("connections.max.idle.ms", "must be more than connection.failed.authentication.delay.ms, which is %d", r.Long("connection.failed.authentication.delay.ms"))
	}
	if beat, session := r.Long("broker.heartbeat.interval.ms"), r.Long("broker.session.timeout.ms"); beat*2 > session {
		c.Warnings = append(c.Warnings, fmt.Sprintf("broker.heartbeat.interval.ms=%d is more than half of broker.session.timeout.ms=%d: one lost heartbeat fences the broker", beat, session))
	}
	if protocols := r.List("group.coordinator.rebalance.protocols"); !slices.Contains(protocols, "classic") {
		return l.refuse("group.coordinator.rebalance.protocols", "must contain classic")
	}
	return nil
}

// checkLast looks at what only the whole configuration shows.
func (l *loader) checkLast(c *ServerConfig) error {
	if c.AdminListener == "" {
		return nil
	}
	_, port, _ := splitHostPort(c.AdminListener)
	for _, e := range slices.Concat(c.Listeners, c.ControllerListeners) {
		if port != 0 && e.Port == port {
			return l.refuse("admin.listener", "has the port of listener %s, %s", e.Listener, strconv.Itoa(int(port)))
		}
	}
	if c.Log.Defaults.RemoteStorageEnable {
		return l.refuse("remote.log.storage.system.enable", "tiered storage is not served yet")
	}
	return nil
}
