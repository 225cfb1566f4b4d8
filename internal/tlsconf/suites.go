package tlsconf

import (
	"crypto/tls"
	"slices"
	"strings"
)

// versions reads ssl.enabled.protocols and ssl.protocol. With ssl.protocol=TLSv1.2
// nothing newer is spoken whatever is enabled (SslConfigs.SSL_PROTOCOL_DOC).
func (p *parser) versions() {
	list := splitList(p.text("ssl.enabled.protocols"))
	if len(list) == 0 {
		list = []string{"TLSv1.2", "TLSv1.3"}
	}
	var enabled []uint16
	for _, v := range list {
		if id := p.version("ssl.enabled.protocols", v); id != 0 {
			enabled = append(enabled, id)
		}
	}
	preferred := uint16(tls.VersionTLS13)
	if v := p.text("ssl.protocol"); v != "" && v != "TLS" {
		preferred = p.version("ssl.protocol", v)
	}
	if p.problem != nil {
		return
	}
	enabled = slices.DeleteFunc(enabled, func(id uint16) bool { return id > preferred })
	if len(enabled) == 0 {
		p.refuseValue("ssl.protocol", p.text("ssl.protocol"), "leaves nothing of ssl.enabled.protocols=%s: set it to TLSv1.3, or enable TLSv1.2", strings.Join(list, ","))
		return
	}
	p.s.MinVersion, p.s.MaxVersion = slices.Min(enabled), slices.Max(enabled)
}

func (p *parser) version(key, name string) uint16 {
	switch name {
	case "TLSv1.3":
		return tls.VersionTLS13
	case "TLSv1.2":
		return tls.VersionTLS12
	case "TLSv1", "TLSv1.1", "SSLv3", "SSLv2Hello", "SSL", "SSLv2":
		p.refuseValue(key, name, "is broken and not served (RFC 8996): use TLSv1.2 or TLSv1.3")
	default:
		p.refuseValue(key, name, "is no TLS version; did you mean %s?", Nearest(name, []string{"TLSv1.2", "TLSv1.3"}))
	}
	return 0
}

// oldNames are Java's names of suites whose names in the standard begin with TLS.
const oldNames = "SSL_"

// broken are suites that Go can speak and nobody should.
func broken(name string) bool {
	return strings.Contains(name, "_RC4_") || strings.Contains(name, "_3DES_") || strings.Contains(name, "_NULL_") || strings.Contains(name, "_anon_") || strings.Contains(name, "_EXPORT_")
}

// suites reads ssl.cipher.suites. Java speaks a version only where a suite of it is
// listed, so a list of TLS 1.2 suites ends TLS 1.3 and the other way round.
func (p *parser) suites() {
	list := splitList(p.text("ssl.cipher.suites"))
	if len(list) == 0 || p.problem != nil {
		return
	}
	const key = "ssl.cipher.suites"
	ids := map[string]*tls.CipherSuite{}
	var names []string
	for _, c := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		ids[c.Name] = c
		if !c.Insecure {
			names = append(names, c.Name)
		}
	}
	var modern, classic []uint16
	for _, given := range list {
		name := given
		if rest, old := strings.CutPrefix(given, oldNames); old {
			name = "TLS_" + rest
		}
		c, known := ids[name]
		switch {
		case broken(name):
			p.refuseValue(key, given, "is broken and not served: take it away, or use %s", Nearest(name, names))
			return
		case !known:
			p.refuseValue(key, given, "is no suite that is served here; did you mean %s?", Nearest(name, names))
			return
		case slices.Contains(c.SupportedVersions, tls.VersionTLS13):
			modern = append(modern, c.ID)
		default:
			classic = append(classic, c.ID)
			if c.Insecure {
				p.warn(key, "%s is no longer thought safe; it is offered because it is listed", given)
			}
		}
	}
	p.chooseSuites(modern, classic, list)
}

func (p *parser) chooseSuites(modern, classic []uint16, list []string) {
	const key = "ssl.cipher.suites"
	if len(modern) == 0 {
		p.s.MaxVersion = min(p.s.MaxVersion, tls.VersionTLS12)
	}
	if len(classic) == 0 {
		p.s.MinVersion = max(p.s.MinVersion, tls.VersionTLS13)
	}
	if p.s.MinVersion > p.s.MaxVersion {
		p.refuseValue(key, strings.Join(list, ","), "has no suite of the enabled TLS versions: add one, or change ssl.enabled.protocols")
		return
	}
	if n := len(modern); n > 0 && n < tls13Suites {
		p.warn(key, "the suites of TLS 1.3 cannot be chosen one by one: all %d are offered", tls13Suites)
	}
	p.s.Suites = classic
}

// tls13Suites is how many there are in crypto/tls.
const tls13Suites = 3

func splitList(v string) []string {
	var out []string
	for _, it := range strings.Split(v, ",") {
		if it = strings.TrimSpace(it); it != "" {
			out = append(out, it)
		}
	}
	return out
}

// Nearest is the known name that looks most like name: the most words of it, then
// the smallest edit distance.
func Nearest(name string, known []string) string {
	best, bestWords, bestDistance := "", -1, 0
	words := strings.FieldsFunc(strings.ToUpper(name), func(r rune) bool { return r == '_' || r == '-' })
	for _, k := range known {
		common := 0
		for _, w := range strings.Split(strings.ToUpper(k), "_") {
			if slices.Contains(words, w) {
				common++
			}
		}
		d := distance(strings.ToUpper(name), strings.ToUpper(k))
		if common > bestWords || common == bestWords && d < bestDistance {
			best, bestWords, bestDistance = k, common, d
		}
	}
	return best
}

func distance(a, b string) int {
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		cur := make([]int, len(b)+1)
		cur[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			cur[j+1] = min(prev[j]+cost, prev[j+1]+1, cur[j]+1)
		}
		prev = cur
	}
	return prev[len(b)]
}
