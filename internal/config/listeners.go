package config

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/internal/types"
)

// Security protocols by id (SecurityProtocol of Apache Kafka).
const (
	protocolPlaintext     int16 = 0
	protocolSSL           int16 = 1
	protocolSASLPlaintext int16 = 2
	protocolSASLSSL       int16 = 3
)

var protocolIDs = map[string]int16{
	"PLAINTEXT": protocolPlaintext, "SSL": protocolSSL, "SASL_PLAINTEXT": protocolSASLPlaintext, "SASL_SSL": protocolSASLSSL,
}

var listenerURI = regexp.MustCompile(`^([^:/]*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(\d+)$`)

// parseListener reads NAME://HOST:PORT. IPv6 addresses stand in brackets.
func parseListener(s string) (name, host string, port int32, err error) {
	m := listenerURI.FindStringSubmatch(s)
	if m == nil || m[1] == "" {
		return "", "", 0, fmt.Errorf("%q is not NAME://HOST:PORT", s)
	}
	p, err := strconv.ParseUint(m[3], 10, 16)
	if err != nil {
		return "", "", 0, fmt.Errorf("port %s of %q is not between 0 and 65535", m[3], s)
	}
	return strings.ToUpper(m[1]), m[2], int32(p), nil
}

// splitHostPort reads HOST:PORT; the host may be empty or a bracketed IPv6 address.
func splitHostPort(s string) (host string, port int32, err error) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", 0, errors.New("has no port")
	}
	host = s[:i]
	if bare, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(bare, "]"); !ok {
			return "", 0, errors.New("has an unclosed bracket")
		}
	} else if strings.Contains(host, ":") {
		return "", 0, errors.New("needs brackets around an IPv6 address")
	}
	p, err := strconv.ParseUint(s[i+1:], 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("has port %q, which is not between 0 and 65535", s[i+1:])
	}
	return host, int32(p), nil
}

var adminAddress = limit{words: "HOST:PORT, or empty", check: func(v string) error {
	if trim(v) == "" {
		return nil
	}
	if _, _, err := splitHostPort(trim(v)); err != nil {
		return fmt.Errorf("is not HOST:PORT: it %w", err)
	}
	return nil
}}

// ParseVoters reads controller.quorum.voters: ID@HOST:PORT, comma separated.
func ParseVoters(v string) ([]Voter, error) {
	var out []Voter
	for _, it := range SplitList(v) {
		id, addr, ok := strings.Cut(it, "@")
		n, err := strconv.ParseInt(id, 10, 32)
		if !ok || err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not ID@HOST:PORT", it)
		}
		host, port, err := splitHostPort(addr)
		if err != nil || host == "" {
			return nil, fmt.Errorf("%q is not ID@HOST:PORT", it)
		}
		if slices.ContainsFunc(out, func(o Voter) bool { return o.ID == int32(n) }) {
			return nil, fmt.Errorf("names voter %d twice", n)
		}
		out = append(out, Voter{ID: int32(n), Host: host, Port: port})
	}
	return out, nil
}

// parseProtocolMap reads listener.security.protocol.map: NAME:PROTOCOL pairs.
func parseProtocolMap(v string) (map[string]int16, error) {
	out := map[string]int16{}
	for _, it := range SplitList(v) {
		name, proto, ok := strings.Cut(it, ":")
		id, known := protocolIDs[strings.ToUpper(trim(proto))]
		if !ok || trim(name) == "" || !known {
			return nil, fmt.Errorf("%q is not NAME:PROTOCOL with one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL", it)
		}
		out[strings.ToUpper(trim(name))] = id
	}
	return out, nil
}

func parseIPOverrides(v string) (map[string]int, error) {
	out := map[string]int{}
	for _, it := range SplitList(v) {
		i := strings.LastIndexByte(it, ':')
		if i <= 0 {
			return nil, fmt.Errorf("%q is not HOST:COUNT", it)
		}
		n, err := strconv.ParseInt(trim(it[i+1:]), 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not HOST:COUNT", it)
		}
		out[trim(it[:i])] = int(n)
	}
	return out, nil
}

// protocols is the effective listener.security.protocol.map: when the map was
// not given and nothing but PLAINTEXT is in use, controller listeners are
// PLAINTEXT whatever their name (AbstractKafkaConfig.effectiveListenerSecurityProtocolMap).
func protocols(r Resolved, mapGiven bool) (map[string]int16, error) {
	m, err := parseProtocolMap(r.String("listener.security.protocol.map"))
	if err != nil || mapGiven {
		return m, err
	}
	secure := func(name string) bool { return name == "SSL" || name == "SASL_SSL" || name == "SASL_PLAINTEXT" }
	names := r.List("controller.listener.names")
	if slices.ContainsFunc(names, secure) {
		return m, nil
	}
	for _, l := range r.List("listeners") {
		name, _, _ := strings.Cut(l, ":")
		if secure(strings.ToUpper(name)) {
			return m, nil
		}
	}
	for _, n := range names {
		m[strings.ToUpper(n)] = protocolPlaintext
	}
	return m, nil
}

// endpoints parses a list of listeners and refuses two with one name or, for
// listeners that are bound, one port.
func endpoints(list []string, protos map[string]int16, bound bool) ([]types.Endpoint, error) {
	var out []types.Endpoint
	for _, s := range list {
		name, host, port, err := parseListener(s)
		if err != nil {
			return nil, err
		}
		proto, ok := protos[name]
		if !ok {
			return nil, fmt.Errorf("listener %s has no entry in listener.security.protocol.map: set listener.security.protocol.map=%s", name, mapWith(protos, name))
		}
		e := types.Endpoint{Listener: name, SecurityProtocol: proto, Host: host, Port: port}
		for _, o := range out {
			if o.Listener == name {
				return nil, fmt.Errorf("two listeners are called %s", name)
			}
			if bound && port != 0 && o.Port == port && !differentFamilies(o.Host, host) {
				return nil, fmt.Errorf("listeners %s and %s have the same port %d", o.Listener, name, port)
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// mapWith is a listener.security.protocol.map that has a listener too.
func mapWith(protos map[string]int16, name string) string {
	pairs := []string{name + ":PLAINTEXT"}
	for n, id := range protos {
		pairs = append(pairs, n+":"+ProtocolName(id))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// differentFamilies reports whether one host is an IPv4 and the other an IPv6
// address: only then may two listeners share a port.
func differentFamilies(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	return errX == nil && errY == nil && x.Is4() != y.Is4()
}
