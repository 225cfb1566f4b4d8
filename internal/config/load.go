package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/magiconair/properties"
)

// ServerSources are the places a server's settings come from, lowest
// precedence first: file, environment, --set, flags.
type ServerSources struct {
	FileName string   // for messages
	File     []byte   // contents of server.properties; nil: no file
	Env      []string // NAME=VALUE as in os.Environ; only TIDEMARK_* is read
	Set      []string // key=value, from --set
	Flags    Flags
}

// Flags are the server's own flags. Empty means not given.
type Flags struct {
	DataDir string // --data-dir: log.dirs
	Listen  string // --listen HOST:PORT: the address of the one client listener
	Admin   string // --admin HOST:PORT: admin.listener; "none" for no admin listener
	NodeID  string // --node-id: node.id
}

// EnvPrefix starts the environment variables that carry settings:
// TIDEMARK_LOG_SEGMENT_BYTES is log.segment.bytes. An empty variable counts as
// not set, as it does for most programs.
const EnvPrefix = "TIDEMARK_"

// Environment variables that mirror flags instead of keys.
const (
	envConfig  = EnvPrefix + "CONFIG" // read by the command line, not here
	envDataDir = EnvPrefix + "DATA_DIR"
	envListen  = EnvPrefix + "LISTEN"
	envAdmin   = EnvPrefix + "ADMIN"
)

// given is a value together with where it was found, for messages.
type given struct {
	value  string
	origin string
}

// loader gathers settings by key; later sources replace earlier ones.
type loader struct {
	values map[string]given
	listen given // HOST:PORT from --listen or TIDEMARK_LISTEN
}

// LoadServer reads, layers and checks all settings of a server and returns them
// typed. The error is an *Error that names the key, the value, the reason, the
// place and, for an unknown key, the nearest known one.
func LoadServer(src ServerSources) (ServerConfig, error) {
	l := &loader{values: map[string]given{}}
	for _, step := range []func(ServerSources) error{l.readFile, l.readEnv, l.readSet, l.readFlags} {
		if err := step(src); err != nil {
			return ServerConfig{}, err
		}
	}
	if err := l.checkEach(); err != nil {
		return ServerConfig{}, err
	}
	if err := l.derive(); err != nil {
		return ServerConfig{}, err
	}
	static := Layer{Source: SourceStatic, Values: map[string]string{}}
	for k, g := range l.values {
		static.Values[k] = g.value
	}
	c := ServerConfig{Static: static, Warnings: l.warnings()}
	if err := l.build(&c); err != nil {
		return ServerConfig{}, err
	}
	return c, nil
}

func (l *loader) put(key, value, origin string) {
	l.values[key] = given{value: value, origin: origin}
}

func (l *loader) readFile(src ServerSources) error {
	if src.File == nil {
		return nil
	}
	// Expansion stays off: ${...} is text, as in Kafka.
	ld := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := ld.LoadBytes(src.File)
	if err != nil {
		return &Error{Key: src.FileName, Reason: "is not a properties file: " + err.Error()}
	}
	for _, k := range p.Keys() {
		v, _ := p.Get(k)
		l.put(k, v, src.FileName)
	}
	return nil
}

func (l *loader) readEnv(src ServerSources) error {
	for _, kv := range slices.Sorted(slices.Values(src.Env)) {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || value == "" || !strings.HasPrefix(name, EnvPrefix) {
			continue
		}
		origin := "environment " + name
		switch name {
		case envConfig:
		case envDataDir:
			l.put("log.dirs", value, origin)
		case envListen:
			l.listen = given{value, origin}
		case envAdmin:
			l.put("admin.listener", adminValue(value), origin)
		default:
			key := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, EnvPrefix)), "_", ".")
			l.put(key, value, origin)
		}
	}
	return nil
}

func adminValue(v string) string {
	if v == "none" {
		return ""
	}
	return v
}

func (l *loader) readSet(src ServerSources) error {
	for _, kv := range src.Set {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || trim(k) == "" {
			return &Error{Key: "--set " + kv, Reason: "must be key=value"}
		}
		l.put(trim(k), v, "--set")
	}
	return nil
}

func (l *loader) readFlags(src ServerSources) error {
	f := src.Flags
	if f.DataDir != "" {
		l.put("log.dirs", f.DataDir, "--data-dir")
	}
	if f.Admin != "" {
		l.put("admin.listener", adminValue(f.Admin), "--admin")
	}
	if f.NodeID != "" {
		l.put("node.id", f.NodeID, "--node-id")
		delete(l.values, "broker.id")
	}
	if f.Listen != "" {
		l.listen = given{f.Listen, "--listen"}
	}
	return nil
}

func (l *loader) checkEach() error {
	for _, k := range slices.Sorted(maps.Keys(l.values)) {
		g := l.values[k]
		if err := Validate(ScopeBroker, k, g.value); err != nil {
			return locate(err, g.origin)
		}
	}
	return nil
}

func locate(err error, origin string) error {
	var e *Error
	if errors.As(err, &e) && e.Origin == "" {
		e.Origin = origin
	}
	return err
}

// refuse builds an *Error about a key, with the value and origin it was given.
func (l *loader) refuse(key, format string, args ...any) *Error {
	g := l.values[key]
	return &Error{Key: key, Value: g.value, Reason: fmt.Sprintf(format, args...), Origin: g.origin}
}

func (l *loader) unset(key string) bool {
	_, ok := l.values[key]
	return !ok
}

func (l *loader) orElse(key, value string) {
	if l.unset(key) {
		l.put(key, value, "")
	}
}

// derive fills in what a server needs and nobody said: one node that is broker
// and controller, on loopback, with internal topics that one broker can hold.
func (l *loader) derive() error {
	if l.unset("node.id") && !l.unset("broker.id") && l.values["broker.id"].value != "-1" {
		l.put("node.id", l.values["broker.id"].value, l.values["broker.id"].origin)
	}
	l.orElse("node.id", "1")
	if l.unset("broker.id") || trim(l.values["broker.id"].value) == "-1" {
		l.put("broker.id", l.values["node.id"].value, l.values["node.id"].origin)
	}
	l.orElse("process.roles", "broker,controller")
	l.orElse("controller.listener.names", "CONTROLLER")
	if l.unset("log.dirs") && l.unset("log.dir") {
		l.put("log.dirs", "data", "")
	}
	if err := l.deriveListeners(); err != nil {
		return err
	}
	voters, err := ParseVoters(l.values["controller.quorum.voters"].value)
	if err != nil {
		return l.refuse("controller.quorum.voters", "%v", err)
	}
	if len(voters) <= 1 && trim(l.values["controller.quorum.bootstrap.servers"].value) == "" {
		for _, k := range clusterOfOne {
			l.orElse(k, "1")
		}
	}
	return nil
}

// clusterOfOne are keys whose defaults need three brokers.
var clusterOfOne = []string{
	"offsets.topic.replication.factor",
	"transaction.state.log.replication.factor", "transaction.state.log.min.isr",
	"share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.min.isr",
}

// deriveListeners gives the server its two listeners, and puts --listen in the
// place of the address of the only client listener.
func (l *loader) deriveListeners() error {
	roles := SplitList(l.values["process.roles"].value)
	controllerNames := SplitList(l.values["controller.listener.names"].value)
	if l.unset("listeners") {
		var list []string
		if slices.Contains(roles, "broker") {
			list = append(list, "PLAINTEXT://127.0.0.1:9092")
		}
		if slices.Contains(roles, "controller") && len(controllerNames) > 0 {
			list = append(list, controllerNames[0]+"://127.0.0.1:0")
		}
		l.put("listeners", strings.Join(list, ","), "")
	}
	if l.listen.value == "" {
		return nil
	}
	host, port, err := splitHostPort(l.listen.value)
	if err != nil {
		return &Error{Key: "listeners", Value: l.listen.value, Reason: "is not HOST:PORT: it " + err.Error(), Origin: l.listen.origin}
	}
	return l.replaceListen(host, port, controllerNames)
}

func (l *loader) replaceListen(host string, port int32, controllerNames []string) error {
	list := SplitList(l.values["listeners"].value)
	at := -1
	for i, s := range list {
		name, _, _ := strings.Cut(s, ":")
		if slices.ContainsFunc(controllerNames, func(c string) bool { return strings.EqualFold(c, name) }) {
			continue
		}
		if at >= 0 {
			return &Error{Key: "listeners", Value: l.values["listeners"].value, Origin: l.listen.origin,
				Reason: "has more than one client listener; change the one you mean in listeners instead of using " + l.listen.origin}
		}
		at = i
	}
	if at < 0 {
		return &Error{Key: "listeners", Value: l.values["listeners"].value, Origin: l.listen.origin, Reason: "has no client listener to move"}
	}
	name, _, _ := strings.Cut(list[at], ":")
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	list[at] = name + "://" + host + ":" + strconv.Itoa(int(port))
	l.put("listeners", strings.Join(list, ","), l.listen.origin)
	return nil
}

// warnings names given settings that nothing acts on yet.
func (l *loader) warnings() []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(l.values)) {
		if l.values[k].origin == "" {
			continue
		}
		if key, ok := Lookup(ScopeBroker, k); ok {
			if w := key.Warning(l.values[k].value); w != "" {
				out = append(out, w)
			}
		}
	}
	return out
}
