package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// PeerScript returns the script that installs and runs Apache Kafka.
func PeerScript() string { return filepath.Join(Root(), "test", "peers", "kafka") }

// NeedJava skips a comparison when this machine cannot run Apache Kafka. CI sets
// TESTKIT_NEED_PEERS, and there a missing Java is a failure, not a skip.
func NeedJava(t testing.TB) {
	t.Helper()
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("TESTKIT_NEED_PEERS") != "" {
				t.Fatalf("%s is missing and TESTKIT_NEED_PEERS is set: apt-get install -y openjdk-17-jre-headless maven", tool)
			}
			t.Skipf("comparison with Apache Kafka left out: %s is missing (apt-get install -y openjdk-17-jre-headless maven)", tool)
		}
	}
}

// ToolOpts are the JVM options of Kafka's command-line tools in tests: they live
// for a second, so the optimising compiler and a parallel collector cost more
// than they give.
const ToolOpts = "-Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"

// Kafka is an Apache Kafka node on loopback.
type Kafka struct {
	T    testing.TB
	Dir  string
	Port int
}

// StartKafka starts Apache Kafka with the given properties on top of the peer
// script's, and stops it with the test.
func StartKafka(t testing.TB, props ...string) *Kafka {
	t.Helper()
	NeedJava(t)
	// Brokers listen on Port, the controller on the port after it.
	k := &Kafka{T: t, Dir: t.TempDir(), Port: FreePorts(t, 2)}
	args := append([]string{"start", "-p", fmt.Sprint(k.Port), "-d", k.Dir}, props...)
	k.stopAtEnd()
	if out, err := k.script(args...); err != nil {
		t.Fatalf("start Apache Kafka: %v\n%s", err, out)
	}
	return k
}

// stopAtEnd kills the node when the test ends, and also when the test process is
// killed or panics at its deadline: a watcher reads a pipe that closes with us.
func (k *Kafka) stopAtEnd() {
	k.T.Helper()
	watcher := exec.Command("bash", "-c", `read -r _; exec bash "$0" stop -9 -d "$1"`, PeerScript(), k.Dir)
	watcher.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C meant for us must not end it first
	alive, err := watcher.StdinPipe()
	if err == nil {
		err = watcher.Start()
	}
	if err != nil {
		k.T.Fatal(err)
	}
	k.T.Cleanup(func() {
		alive.Close()
		_ = watcher.Wait()
	})
}

// Bootstrap returns host:port for clients.
func (k *Kafka) Bootstrap() string { return fmt.Sprintf("127.0.0.1:%d", k.Port) }

// Restart stops the node cleanly and starts it again.
func (k *Kafka) Restart() {
	k.T.Helper()
	for _, args := range [][]string{{"stop", "-d", k.Dir}, {"up", "-d", k.Dir, "1"}} {
		if out, err := k.script(args...); err != nil {
			k.T.Fatalf("kafka %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func (k *Kafka) script(args ...string) (string, error) {
	// The node outlives the script and keeps its descriptors, so its output goes
	// to a file: a pipe would never reach its end.
	f, err := os.CreateTemp(k.Dir, "script-*.log")
	if err != nil {
		return "", err
	}
	defer f.Close()
	cmd := exec.Command("bash", append([]string{PeerScript()}, args...)...)
	cmd.Stdout, cmd.Stderr = f, f
	err = cmd.Run()
	b, _ := os.ReadFile(f.Name())
	return string(b), err
}

// KafkaTool runs one of Apache Kafka's command-line tools and returns what it
// printed on both streams.
func KafkaTool(t testing.TB, tool string, args ...string) (string, error) {
	t.Helper()
	NeedJava(t)
	cmd := exec.Command("bash", append([]string{PeerScript(), "run", tool}, args...)...)
	cmd.Env = append(os.Environ(), "KAFKA_TOOL_OPTS="+ToolOpts)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
