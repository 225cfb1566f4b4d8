// Package suite holds the measures of the benchmark, one file a row of the
// published table, and the run that ties them together.
//
// A measure starts its systems fresh, warms them up, and then takes them in
// turn (A B C A B C ...), so that what changes on the box while it runs touches
// all of them alike. An error in one measure of one system is written into the
// results; the others go on.
package suite
