package groups

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// TestClients takes groups of every library through the same life.
func TestClients(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, p peer) {
		for _, k := range kinds(t) {
			t.Run(k.name, func(t *testing.T) {
				t.Parallel()
				runScenario(t, p, k)
			})
		}
	})
}

func kinds(t *testing.T) []kind {
	var out []kind
	for _, protocol := range []string{"eager", "cooperative", "consumer"} {
		out = append(out, kgoKind(protocol))
	}
	out = append(out, saramaKinds(t)...)
	out = append(out, pythonKinds(t)...)
	out = append(out, kafkaJSKinds(t)...)
	return append(out, javaKinds(t)...)
}

// kgoKind is franz-go: this test binary run again as a member. Its KIP-848
// members are not static here: franz-go 1.22.3 leaves with epoch -2 but without
// the instance id, which brokers refuse, so that the next one waits for the
// session to end.
func kgoKind(protocol string) kind {
	return kind{name: "franz-go-" + protocol, static: protocol != "consumer", rolls: 3, env: []string{memberEnv + "=" + protocol},
		argv: func(bootstrap, topic, group, instance string) []string {
			return []string{os.Args[0], bootstrap, topic, group, instance}
		}}
}

var saramaBuild = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "groups-sarama-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "saramagroup")
	cmd := exec.Command("go", "build", "-o", bin, "./saramagroup")
	cmd.Dir = filepath.Join(testkit.Root(), "test", "conformance", "clients")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = &buildError{string(out), err}
	}
	return bin, err
})

type buildError struct {
	out string
	err error
}

func (e *buildError) Error() string { return e.err.Error() + "\n" + e.out }

func saramaKinds(t *testing.T) []kind {
	t.Helper()
	bin, err := saramaBuild()
	if err != nil {
		t.Fatal(err)
	}
	var out []kind
	for _, strategy := range []string{"range", "sticky"} {
		out = append(out, kind{name: "sarama-" + strategy, static: true, rolls: 3,
			argv: func(bootstrap, topic, group, instance string) []string {
				return []string{bin, bootstrap, topic, group, instance, strategy}
			}})
	}
	return out
}

// need finds a program, or says how to install it and leaves its clients out.
func need(t *testing.T, program, install string) bool {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return true
	}
	if os.Getenv("TESTKIT_NEED_PEERS") != "" {
		t.Fatalf("%s is missing and TESTKIT_NEED_PEERS is set: %s", program, install)
	}
	t.Logf("LEFT OUT: %s is missing: %s", program, install)
	return false
}

func shell(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func cacheDir(t *testing.T, name string) string {
	t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	dir := filepath.Join(base, "tidemark-conformance", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func clientsDir() string { return filepath.Join(testkit.Root(), "test", "groups", "clients") }

// pythonKinds are librdkafka (confluent-kafka) in all protocols, and kafka-python.
func pythonKinds(t *testing.T) []kind {
	t.Helper()
	if !need(t, "python3", "apt-get install -y python3 python3-venv") {
		return nil
	}
	venv := filepath.Join(cacheDir(t, "python-groups"), "venv")
	python := filepath.Join(venv, "bin", "python")
	if exec.Command(python, "-c", "import confluent_kafka, kafka").Run() != nil {
		shell(t, "python3", "-m", "venv", venv)
		shell(t, python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", filepath.Join(clientsDir(), "requirements.txt"))
	}
	var out []kind
	for _, protocol := range []string{"eager", "cooperative", "consumer"} {
		out = append(out, kind{name: "librdkafka-" + protocol, static: true, rolls: 3,
			argv: func(bootstrap, topic, group, instance string) []string {
				return []string{python, filepath.Join(clientsDir(), "confluent_member.py"), bootstrap, topic, group, instance, protocol}
			}})
	}
	return append(out, kind{name: "kafka-python", static: true, rolls: 3,
		argv: func(bootstrap, topic, group, instance string) []string {
			return []string{python, filepath.Join(clientsDir(), "kafkapython_member.py"), bootstrap, topic, group, instance}
		}})
}

// kafkaJSKinds: KafkaJS has the classic eager protocol and no static members.
func kafkaJSKinds(t *testing.T) []kind {
	t.Helper()
	if !need(t, "npm", "apt-get install -y nodejs npm") {
		return nil
	}
	dir := cacheDir(t, "kafkajs-groups")
	lockDir := filepath.Join(testkit.Root(), "test", "conformance", "clients")
	for _, f := range []string{filepath.Join(lockDir, "package.json"), filepath.Join(lockDir, "package-lock.json"), filepath.Join(clientsDir(), "kafkajs_member.js")} {
		b, err := os.ReadFile(f)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(f)), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "kafkajs")); err != nil {
		shell(t, "npm", "ci", "--prefix", dir, "--no-audit", "--no-fund", "--silent")
	}
	return []kind{{name: "kafkajs", rolls: 3,
		argv: func(bootstrap, topic, group, _ string) []string {
			return []string{"node", filepath.Join(dir, "kafkajs_member.js"), bootstrap, topic, group}
		}}}
}

// javaKinds are Apache Kafka's own consumer, in kafka-verifiable-consumer.
func javaKinds(t *testing.T) []kind {
	t.Helper()
	testkit.NeedJava(t)
	var out []kind
	for name, flags := range map[string][]string{
		"java-eager":       {"--group-protocol", "classic"},
		"java-cooperative": {"--group-protocol", "classic", "--assignment-strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"},
		"java-consumer":    {"--group-protocol", "consumer"},
	} {
		out = append(out, kind{name: name, static: true, rolls: 1, json: true, env: []string{"KAFKA_TOOL_OPTS=" + testkit.ToolOpts},
			argv: func(bootstrap, topic, group, instance string) []string {
				argv := []string{"bash", testkit.PeerScript(), "run", "verifiable-consumer", "--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--reset-policy", "earliest"}
				session := "4000"
				if instance != "" {
					argv, session = append(argv, "--group-instance-id", instance), fmt.Sprint(staticSession.Milliseconds())
				}
				if name != "java-consumer" {
					argv = append(argv, "--session-timeout", session)
				}
				return append(argv, flags...)
			}})
	}
	return out
}
