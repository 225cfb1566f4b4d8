// Package serve is "tidemark server": it reads the configuration, checks it and
// hands it to the server.
//
// Purpose: flags, environment and file become one config.ServerConfig; what is
// wrong in them is said with key, value, reason and the nearest known name.
// Invariants: nothing is opened or written before the configuration is known
// to be good.
// Locks: none. Called by: internal/cli. Calls: the Run it is given.
package serve
