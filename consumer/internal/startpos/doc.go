// Package startpos decides where a newly assigned partition begins.
//
// Purpose: one rule for a committed offset inside the log, below its start, past
// its end, and for none at all, with the user's policy.
// Invariants: a position is never moved to the log end because records were
// lost; what retention removed is counted; a partition that the topic gained
// after the group first consumed it starts at its log start whatever the policy
// (KAFKA-20030, KIP-1327); with policy None nothing is decided for the user.
// Locks: none, a core. Callers: the consumer's assignment callback.
package startpos
