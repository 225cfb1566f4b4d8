// Package kerrors is Kafka's error vocabulary: the code a client sees, and an
// error that carries that code through the layers.
//
// Purpose: one place where an internal failure becomes a protocol code.
// Invariants: codes equal Errors.java of Apache Kafka 4.3; CodeOf never guesses:
// an error without a code is UnknownServerError.
// Locks: none. Callers: every layer.
package kerrors
