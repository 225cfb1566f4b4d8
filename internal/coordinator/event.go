package coordinator

// Event is something that an operator may want to read in the log. Cores tell of
// it through a function that they are given, and never act on the answer.
type Event struct {
	Group  string
	What   string // in words
	Member string // whom it is about; "" nobody in particular
	Epoch  int32  // the group's epoch or generation
	Size   int    // members now
	Minor  bool   // routine: for the log's debug level
}

// Observer takes events; nil ignores them.
type Observer func(Event)

// Tell hands over an event.
func (o Observer) Tell(e Event) {
	if o != nil {
		o(e)
	}
}
