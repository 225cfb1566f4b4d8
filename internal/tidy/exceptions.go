package tidy

// faceExceptions are the packages of lower layers that a face may import all
// the same, with the reason.
var faceExceptions = map[string]map[string]string{
	"internal/cli": {
		"internal/config": "hands the configuration of a server on",
	},
	"internal/cli/app": {
		"internal/tlsconf": "reads client.properties, by the rules of a listener's keys",
	},
	"internal/cli/serve": {
		"internal/config":  "reads the configuration of a server",
		"internal/tlsconf": "checks the keys of a server",
	},
	"internal/cli/logdump": {
		"internal/record":                "reads files of a data folder, not a cluster",
		"internal/recordschema":          "reads files of a data folder, not a cluster",
		"internal/storage/index":         "reads files of a data folder, not a cluster",
		"internal/storage/checkpoint":    "reads files of a data folder, not a cluster",
		"internal/storage/producerstate": "reads files of a data folder, not a cluster",
	},
}

// coreExceptions are forbidden imports that a core has all the same, with the reason.
var coreExceptions = map[string]map[string]string{
	"internal/record": {"sync": "pools of codecs: they cost megabytes to make and have no state between uses"},
	"internal/wire":   {"sync": "pools of buffers, and the references that a Payload holds"},
}

// seedExceptions are test files that may take a seed from the clock, with the reason.
var seedExceptions = map[string]string{
	"test/diff/diff_test.go": "only with -seed 0, and 1 is its default",
}

// ratchet lists what broke a rule when the rule came, as "path: name". It may
// only shrink, and it is empty.
var ratchet = map[string]bool{}
