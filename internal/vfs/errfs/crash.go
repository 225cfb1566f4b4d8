package errfs

import "github.com/tidemark-io/tidemark/internal/vfs"

// Crash is one way in which a power cut can end a run.
type Crash struct {
	After   Op  // the last operation that happened
	Percent int // of unsynced data kept
	Seed    uint64
	// Acked is how many times run had called its acked function by then:
	// what it counted on before must be on the disk that is left.
	Acked int
	Left  *vfs.Mem
}

// crashSeeds is how many choices are tried where chance decides.
const crashSeeds = 4

// EachCrash lets run work on mem and cuts the power after every operation that
// changes the disk, with 0, 50 (several times) and 100 percent of the unsynced
// data kept; check looks at each disk that is left (reliability row D19). run
// calls acked whenever it promised something durable. EachCrash returns run's
// error.
func EachCrash(mem *vfs.Mem, run func(fsys vfs.FS, acked func()) error, check func(Crash)) error {
	n := 0
	fsys := Wrap(mem, Hooks{After: func(op Op, _ error) {
		if !op.Kind.Changes() {
			return
		}
		try := func(percent int, seed uint64) {
			c := Crash{After: op, Percent: percent, Seed: seed, Acked: n}
			c.Left = mem.CrashClone(vfs.CrashOptions{UnsyncedPercent: percent, Seed: seed})
			check(c)
		}
		try(0, 0)
		try(100, 0)
		for seed := range uint64(crashSeeds) {
			try(50, seed^uint64(op.Index)<<8)
		}
	}})
	return run(fsys, func() { n++ })
}
