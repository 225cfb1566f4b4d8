package config

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-io/tidemark/internal/types"
)

func mustLoad(t *testing.T, src ServerSources) ServerConfig {
	t.Helper()
	c, err := LoadServer(src)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLoadServerDefaults(t *testing.T) {
	c := mustLoad(t, ServerSources{})
	if c.NodeID != 1 || !c.Broker || !c.Controller || c.Durability != Strict || c.AdminListener != "127.0.0.1:9644" {
		t.Errorf("identity: %+v", c)
	}
	want := []types.Endpoint{{Listener: "PLAINTEXT", Host: "127.0.0.1", Port: 9092}}
	if diff := cmp.Diff(want, c.Listeners); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, c.Advertised); diff != "" {
		t.Error(diff)
	}
	if c.InterBrokerListener != "PLAINTEXT" || len(c.ControllerListeners) != 1 || c.ControllerListeners[0].Host != "127.0.0.1" {
		t.Errorf("listeners: %+v", c)
	}
	if c.Offsets.TopicReplicationFactor != 1 || c.Offsets.TopicPartitions != 50 || c.Offsets.RetentionMs != 7*24*3600*1000 {
		t.Errorf("offsets: %+v", c.Offsets)
	}
	if diff := cmp.Diff(DefaultTopicConfig(), c.Log.Defaults); diff != "" {
		t.Error(diff)
	}
	if len(c.Warnings) != 0 || c.MetadataDir != "data" {
		t.Errorf("warnings %v, metadata folder %q", c.Warnings, c.MetadataDir)
	}
}

// TestLoadServerPrecedence: file < environment < --set < flags.
func TestLoadServerPrecedence(t *testing.T) {
	src := ServerSources{
		FileName: "server.properties",
		File:     []byte("num.partitions=2\nlog.retention.hours=${HOME}\nlog.retention.hours = 1\nlog.segment.bytes: 2000000\nnode.id=5\n"),
		Env:      []string{"TIDEMARK_NUM_PARTITIONS=3", "TIDEMARK_LOG_SEGMENT_BYTES=3000000", "OTHER=1", "TIDEMARK_CONFIG=x"},
		Set:      []string{"num.partitions=4"},
		Flags:    Flags{NodeID: "7", DataDir: "/d", Listen: "127.0.0.1:0", Admin: "none"},
	}
	c := mustLoad(t, src)
	if c.Topics.NumPartitions != 4 || c.Log.Defaults.SegmentBytes != 3000000 || c.Log.Defaults.RetentionMs != 3600000 {
		t.Errorf("values: %+v %+v", c.Topics, c.Log.Defaults)
	}
	if c.NodeID != 7 || c.DataDirs[0] != "/d" || c.Listeners[0].Port != 0 || c.AdminListener != "" {
		t.Errorf("flags: %+v", c)
	}
	if got := Effective(ScopeBroker, c.Static).Source("num.partitions"); got != SourceStatic {
		t.Errorf("num.partitions comes from %v", got)
	}
}

func TestLoadServerKafkaFile(t *testing.T) {
	c := mustLoad(t, ServerSources{FileName: "server.properties", File: []byte(`
# as shipped with Apache Kafka
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
log.dirs=/var/lib/tidemark
log.retention.hours=168
`)})
	if c.Advertised[0].Host != "localhost" || c.ControllerAdvertised[0].Host != "localhost" || c.Listeners[0].Host != "" {
		t.Errorf("listeners: %+v", c)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "num.network.threads") {
		t.Errorf("warnings: %q", c.Warnings)
	}
}

// TestPartlyInForce: a setting of which one value is not acted on is warned about
// with that value only.
func TestPartlyInForce(t *testing.T) {
	for value, want := range map[string]string{
		"delete":          "",
		"compact":         "log.cleanup.policy=compact is set but not in force: compact: stored and not yet carried out",
		"delete, compact": "log.cleanup.policy=delete, compact is set but not in force: compact: stored and not yet carried out",
	} {
		c, err := LoadServer(ServerSources{Set: []string{"log.cleanup.policy=" + value}})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.Warnings, "\n"); got != want {
			t.Errorf("%q: %q", value, got)
		}
	}
}

func TestLoadServerRefuses(t *testing.T) {
	for _, tc := range []struct{ file, want string }{
		{"log.segment.byte=1", "did you mean log.segment.bytes?"},
		{"log.segment.bytes=1", "at least 1048576 (from server.properties)"},
		{"segment.bytes=2000000", "it is a topic setting; did you mean log.segment.bytes?"},
		{"num.partitions=many", "num.partitions=many: must be a whole number"},
		{"node.id=1\nbroker.id=2", "differs from node.id"},
		{"node.id=-3", "at least 0"},
		{"listeners=PLAINTEXT:9092", "not NAME://HOST:PORT"},
		{"listeners=PLAINTEXT://:99999,CONTROLLER://:1", "between 0 and 65535"},
		{"listeners=PLAINTEXT://:9092,CONTROLLER://:9092", "same port 9092"},
		{"listeners=PLAINTEXT://:1,PLAINTEXT://:2,CONTROLLER://:3", "two listeners are called PLAINTEXT"},
		{"listeners=SSL://:1,CONTROLLER://:3", "listener CONTROLLER has no entry in listener.security.protocol.map: set listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"},
		{"listeners=SSL://:1,CONTROLLER://:3\nlistener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT", "ssl.keystore.location: is not set"},
		{"listeners=OUT://:1,CONTROLLER://:3\nlistener.security.protocol.map=OUT:SSL,CONTROLLER:PLAINTEXT\nlistener.name.out.ssl.keystore.password=pw", "listener.name.out.ssl.keystore.password: is set without ssl.keystore.location: name the file (from server.properties)"},
		{"listeners=OUT://:1,CONTROLLER://:3\nlistener.security.protocol.map=OUT:SASL_SSL,CONTROLLER:PLAINTEXT", "SASL is not served yet: use SSL with ssl.client.auth=required"},
		{"listeners=OUT://:1,CONTROLLER://:3\nlistener.security.protocol.map=OUT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT", "SASL is not served yet"},
		{"listeners=PLAINTEXT://:1,CONTROLLER://:3\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL", "the protocol SSL; it is served in PLAINTEXT only"},
		{"listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://:3", "set advertised.listeners"},
		{"advertised.listeners=PLAINTEXT://0.0.0.0:9092", "not an address that clients can connect to"},
		{"advertised.listeners=OUT://h:1\nlistener.security.protocol.map=OUT:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", "not in listeners"},
		{"listeners=PLAINTEXT://:9092", "no listener from controller.listener.names"},
		{"listeners=CONTROLLER://:9092", "no listener for clients"},
		{"process.roles=broker", "must name the controllers"},
		{"process.roles=controller\nlisteners=PLAINTEXT://:1,CONTROLLER://:2", "is no broker"},
		{"process.roles=driver", "not one of broker, controller"},
		{"controller.quorum.voters=2@h:1", "does not contain this node"},
		{"controller.quorum.voters=1@h:1,2@h:2", "only a cluster of one is served yet"},
		{"controller.quorum.voters=1@h", "not ID@HOST:PORT"},
		{"inter.broker.listener.name=NOPE", "not among the advertised listeners"},
		{"replica.fetch.wait.max.ms=40000", "replica.socket.timeout.ms"},
		{"queued.max.request.bytes=1000", "less than socket.request.max.bytes"},
		{"max.connections.per.ip=0", "nobody could connect"},
		{"connections.max.idle.ms=100", "connection.failed.authentication.delay.ms"},
		{"log.retention.ms=0", "-1 (no limit)"},
		{"admin.listener=127.0.0.1:9092", "port of listener PLAINTEXT"},
		{"admin.listener=9644", "not HOST:PORT"},
		{"cordoned.log.dirs=/x", "not in log.dirs"},
		{"log.dirs=a,a", "twice"},
		{"a\\u12=3", "not a properties file"},
		{"group.coordinator.rebalance.protocols=consumer", "must contain classic"},
	} {
		_, err := LoadServer(ServerSources{FileName: "server.properties", File: []byte(tc.file)})
		checkError(t, tc.file, err, tc.want)
	}
	_, err := LoadServer(ServerSources{Set: []string{"novalue"}})
	checkError(t, "--set", err, "must be key=value")
	_, err = LoadServer(ServerSources{Env: []string{"TIDEMARK_NUM_PARTITION=3"}})
	checkError(t, "environment", err, "did you mean num.partitions? (from environment TIDEMARK_NUM_PARTITION)")
	_, err = LoadServer(ServerSources{Flags: Flags{Listen: "host"}})
	checkError(t, "--listen", err, "has no port (from --listen)")
	_, err = LoadServer(ServerSources{Flags: Flags{Listen: ":99999"}})
	checkError(t, "--listen", err, `is not HOST:PORT: it has port "99999", which is not between 0 and 65535 (from --listen)`)
}

func TestListenReplacesTheClientListener(t *testing.T) {
	file := []byte("listeners=PLAINTEXT://:9092,CONTROLLER://:9093")
	c := mustLoad(t, ServerSources{File: file, Flags: Flags{Listen: "[::1]:7000"}})
	if c.Listeners[0].Host != "::1" || c.Listeners[0].Port != 7000 || c.ControllerListeners[0].Port != 9093 {
		t.Errorf("%+v", c)
	}
	two := []byte("listeners=A://:1,B://:2,CONTROLLER://:3\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,CONTROLLER:PLAINTEXT\ninter.broker.listener.name=A")
	_, err := LoadServer(ServerSources{File: two, Flags: Flags{Listen: ":1"}})
	checkError(t, "two", err, "more than one client listener")
}

// TestListenerTLS: settings with a listener's prefix come before those without, each
// listener has its own, and what names no listener is said to do nothing.
func TestListenerTLS(t *testing.T) {
	c := mustLoad(t, ServerSources{FileName: "server.properties", File: []byte(`
listeners=PLAINTEXT://:9092,OUT://:9093,BACK://:9094,CONTROLLER://127.0.0.1:0
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUT:SSL,BACK:SSL,CONTROLLER:PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location=/both.pem
ssl.client.auth=requested
listener.name.back.ssl.keystore.location=/back.pem
listener.name.back.ssl.client.auth=required
listener.name.back.ssl.truststore.type=PEM
listener.name.back.ssl.truststore.location=/ca.pem
listener.name.nobody.ssl.keystore.location=/x
listener.name.OUT.ssl.keystore.location=/x
`)})
	out, back := c.TLS["OUT"], c.TLS["BACK"]
	if out.Keystore.Location != "/both.pem" || out.ClientAuth != tls.VerifyClientCertIfGiven || len(c.TLS) != 2 {
		t.Errorf("OUT: %+v", out)
	}
	if back.Keystore.Location != "/back.pem" || back.ClientAuth != tls.RequireAndVerifyClientCert || back.Truststore.Location != "/ca.pem" {
		t.Errorf("BACK: %+v", back)
	}
	if c.Listeners[1].SecurityProtocol != 1 || c.Advertised[2].SecurityProtocol != 1 || c.InterBrokerListener != "PLAINTEXT" {
		t.Errorf("listeners: %+v", c)
	}
	warnings := strings.Join(c.Warnings, "\n")
	for _, want := range []string{"no listener is called NOBODY", "write listener.name.out."} {
		if !strings.Contains(warnings, want) {
			t.Errorf("warnings %q lack %q", warnings, want)
		}
	}
}

// FuzzLoadServer: no file makes the loader panic, and what it accepts is consistent.
func FuzzLoadServer(f *testing.F) {
	f.Add([]byte("listeners=PLAINTEXT://:9092,CONTROLLER://[::1]:9093\nnode.id=3"))
	f.Add([]byte("log.dirs=a,b\ncontroller.quorum.voters=1@h:1"))
	f.Add([]byte("listener.name.x.y=\\\n z"))
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := LoadServer(ServerSources{FileName: "f", File: file})
		if err != nil {
			if _, ok := err.(*Error); !ok {
				t.Fatalf("error %T: %v", err, err)
			}
			return
		}
		if len(c.DataDirs) == 0 || c.Broker && len(c.Advertised) == 0 || c.Controller && len(c.ControllerListeners) == 0 {
			t.Fatalf("accepted %q as %+v", file, c)
		}
	})
}

// FuzzValidate: no value of any key panics, and an accepted value converts.
func FuzzValidate(f *testing.F) {
	f.Add("retention.ms", "1")
	f.Add("leader.replication.throttled.replicas", "1:2,*")
	f.Add("share.auto.offset.reset", "by_duration:PT")
	f.Fuzz(func(_ *testing.T, name, value string) {
		for _, s := range []Scope{ScopeTopic, ScopeBroker, ScopeGroup, ScopeClientMetrics} {
			_ = Validate(s, name, value)
			Effective(s, Layer{SourceTopic, map[string]string{name: value}}, Layer{SourceStatic, map[string]string{name: value}}).Describe(name)
		}
	})
}
