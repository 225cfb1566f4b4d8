package suite

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// describe says what the run is made of.
func describe(o *Options) (box, versions map[string]string) {
	box = map[string]string{
		"kernel":                    strings.TrimSpace(read("/proc/sys/kernel/osrelease")),
		"CPU":                       fmt.Sprintf("%d × %s", runtime.NumCPU(), field("/proc/cpuinfo", "model name")),
		"memory":                    field("/proc/meminfo", "MemTotal"),
		"disk":                      command(o.Root, "findmnt", "-no", "FSTYPE,SOURCE,OPTIONS", "-T", o.Dir),
		"load average at the start": loadAverage(),
	}
	versions = map[string]string{
		"Tidemark": "commit " + command(o.Root, "git", "rev-parse", "--short", "HEAD") + dirtyTree(o.Root),
		"Go":       runtime.Version(),
	}
	if out, err := exec.Command("java", "-version").CombinedOutput(); err == nil {
		versions["Java"] = strings.TrimSpace(strings.SplitN(string(out), "\n", 2)[0])
		versions["Apache Kafka"] = "4.3.1 (org.apache.kafka from Maven), -Xmx1G -Xms1G -XX:+UseG1GC as its own scripts have"
	}
	if v := command(o.Root, "dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server"); v != "" {
		versions["RabbitMQ"] = v + " (Debian)"
	}
	return box, versions
}

func dirtyTree(root string) string {
	if command(root, "git", "status", "--porcelain", "--", "internal", "cmd", "go.mod") != "" {
		return " with uncommitted changes"
	}
	return ""
}

func read(path string) string {
	b, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return "unknown"
	}
	return string(b)
}

func field(path, name string) string {
	for line := range strings.Lines(read(path)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

func command(dir, name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(out))
}

func loadAverage() string {
	return strings.Join(strings.Fields(read("/proc/loadavg"))[:3], " ")
}
