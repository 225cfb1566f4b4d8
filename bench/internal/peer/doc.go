// Package peer starts and stops the systems that the benchmark compares, each
// as a process of its own on loopback, and reads what the kernel knows of it:
// CPU time, memory.
//
// A peer that cannot run here (no Java, no package) says why; its column in the
// results says the same and has no figures.
package peer
