package coordinator

// Record is one record of an internal topic. A nil Value is a tombstone.
type Record struct {
	Key   []byte
	Value []byte
}

// Effect is what a core does once the fate of its records is known: answer a
// request that was parked, or go on from where it waited for the log. The
// runtime runs it on the shard's turn.
type Effect interface {
	// Deliver is called exactly once: with nil when everything that the core
	// wrote up to this result is committed, else with what kept it from that.
	// What it returns is handled like the result of a request.
	Deliver(now Now, err error) Output
}

// Now is the time of a step.
type Now struct {
	WallMs int64 // of the world, for what is stored
	TickMs int64 // never set back or forth, for timers
}

// Output is what a step of a core asks for.
type Output struct {
	// Records to append. The core has not changed yet: Replay changes it.
	Records []Record
	// Effects to deliver once Records are committed; without records, once
	// everything that the shard wrote before is.
	Effects []Effect
	// NonAtomic is as in Result.
	NonAtomic bool
}

// Result is what a request does to a shard: records to append, and the
// response that leaves once they are committed. No records means that nothing
// changed; the response then waits for what it may have read.
type Result[T any] struct {
	Records  []Record
	Effects  []Effect
	Response T
	// NonAtomic lets the records be spread over several batches, for house
	// keeping whose records stand each for itself. Otherwise they are in one
	// batch: a crash keeps all of them or none, and they must fit.
	NonAtomic bool
}

// With returns a result that asks for out and answers with response.
func With[T any](out Output, response T) Result[T] {
	return Result[T]{Records: out.Records, Effects: out.Effects, NonAtomic: out.NonAtomic, Response: response}
}
