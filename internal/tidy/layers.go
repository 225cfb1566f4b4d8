package tidy

import "strings"

// layer is where a package stands; a higher one may import a lower one.
type layer int

const (
	unknown   layer = iota
	layer0          // foundations: values, formats, tables
	layer1          // pure cores: inputs and outputs are values
	layer2          // engines: I/O, goroutines, locks
	layer3          // server: handlers, roles, start order
	layer4          // faces: speak only the Kafka protocol
	layerMain       // cmd: puts faces and server together
	layerTest       // tests and tools: may import anything
)

// layers by folder prefix, the longest match counts.
var layers = map[string]layer{
	"internal/kerrors": layer0, "internal/apis": layer0, "internal/wire": layer0, "internal/record": layer0,
	"internal/recordschema": layer0, "internal/timeline": layer0, "internal/config": layer0, "internal/types": layer0,
	"internal/tlsconf": layer0,

	"internal/metadata/image": layer1, "internal/metadata/controller": layer1, "internal/metadata/placement": layer1,
	"internal/coordinator": layer1, "internal/coordinator/group": layer1, "internal/coordinator/txn": layer1, "internal/partition": layer1,
	"internal/fetchsession": layer1, "internal/quota": layer1, "internal/authorizer": layer1,

	"internal/vfs": layer2, "internal/storage": layer2, "internal/quorum": layer2, "internal/quorumcontroller": layer2,
	"internal/metadata/loader": layer2, "internal/coordinator/runtime": layer2, "internal/coordinator/groupservice": layer2, "internal/replica": layer2,
	"internal/purgatory": layer2, "internal/network": layer2, "internal/telemetry": layer2, "internal/lifecycle": layer2,

	"internal/handlers": layer3, "internal/server": layer3,

	"internal/cli": layer4, "internal/ops": layer4, "internal/console": layer4, "consumer": layer4, "examples": layer4,

	"cmd": layerMain,

	"internal/tidy": layerTest, "internal/testkit": layerTest, "internal/sim": layerTest, "internal/gen": layerTest,
	"test": layerTest, "bench": layerTest,
}

func layerOf(dir string) layer {
	best, found := unknown, ""
	for prefix, l := range layers {
		if (dir == prefix || strings.HasPrefix(dir, prefix+"/")) && len(prefix) > len(found) {
			best, found = l, prefix
		}
	}
	return best
}

// librariesOf lists what a layer may import from other modules, by prefix.
// Layers 2 and up may import any library that go.mod has.
var librariesOf = map[layer][]string{
	layer0: {
		"github.com/twmb/franz-go/pkg/kmsg", "github.com/twmb/franz-go/pkg/kbin", "github.com/twmb/franz-go/pkg/kerr",
		"github.com/klauspost/compress", "github.com/pierrec/lz4", "github.com/magiconair/properties",
		"software.sslmate.com/src/go-pkcs12",
	},
	layer1: {"github.com/twmb/franz-go/pkg/kmsg", "github.com/twmb/franz-go/pkg/kbin", "github.com/tidwall/btree"},
}

// forbiddenInCores are standard packages that bring a clock, randomness, I/O,
// locks or logging into code that must replay exactly.
var forbiddenInCores = []string{"os", "net", "sync", "context", "log", "math/rand", "crypto/rand", "syscall", "runtime", "unsafe", "io/ioutil"}

// clockCalls are functions of package time that read the clock or start timers.
var clockCalls = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true, "Tick": true, "NewTimer": true, "NewTicker": true,
}

// mayImport says whether a package in dir may import the package imported, both
// folders of this module; the reason is empty when it may.
func mayImport(dir, imported string) string {
	from, to := layerOf(dir), layerOf(imported)
	switch {
	case to == unknown:
		return "its layer is not known: add it to internal/tidy/layers.go"
	case from == layerTest:
		return ""
	case to == layerTest:
		return "only tests import test packages"
	case from == layer4:
		return faceMayImport(dir, imported, to)
	case from == layerMain, from > to:
		return ""
	case from == to && from != layer3:
		return ""
	case from == layer3 && imported == "internal/handlers":
		return ""
	}
	return "a lower layer may not import a higher one"
}

// faceMayImport keeps layer 4 on the Kafka protocol.
func faceMayImport(dir, imported string, to layer) string {
	if to == layer4 || imported == "internal/types" || faceExceptions[dir][imported] != "" {
		return ""
	}
	return "a face speaks only the Kafka protocol: of this module it may import internal/types and other faces"
}

// siblings are the other engines that an engine may import beside those that
// its package comment names. vfs is below all of them and needs no naming.
var siblings = map[string][]string{
	"internal/quorum":                {"internal/storage/epochcache", "internal/storage/filecache", "internal/storage/segment"},
	"internal/replica":               {"internal/purgatory", "internal/storage/checkpoint", "internal/storage/logdir"},
	"internal/storage/epochcache":    {"internal/storage/checkpoint"},
	"internal/storage/index":         {"internal/storage/filecache"},
	"internal/storage/log":           {"internal/storage/checkpoint", "internal/storage/commit", "internal/storage/epochcache", "internal/storage/filecache", "internal/storage/logdir", "internal/storage/producerstate"},
	"internal/storage/logdir":        {"internal/storage/checkpoint"},
	"internal/storage/producerstate": {"internal/storage/checkpoint"},
	"internal/storage/segment":       {"internal/storage/filecache"},
}
